"""Bounds of repeated runs and of groups, from the curve of one run or record (docs/theory/derived.md)."""

from .curve import list_curve_points as list_curve_points
from .engine import delta as delta
from .engine import epsilon as epsilon
from .groups import KnownLimits as KnownLimits
from .inner_run import KnownRun as KnownRun
