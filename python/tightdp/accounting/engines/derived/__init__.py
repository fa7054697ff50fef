"""Repeated runs and groups: from the curve of what is run (docs/theory/derived.md)."""

from .base import Run as Run
from .curve import build_dominating_loss as build_dominating_loss
from .engine import delta as delta
from .engine import epsilon as epsilon
from .engine import single as single
from .groups import Known as Known
