"""Runs the command line as ``python -m tightdp.cli``."""

import sys

from . import main

sys.exit(main())
