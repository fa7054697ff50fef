"""Runs the command line: ``python -m tightdp``."""

import sys

from .cli import main

sys.exit(main())
