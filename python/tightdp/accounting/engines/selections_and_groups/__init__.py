"""Bounds of repeated runs and of groups, from the curve of one run or record (docs/theory/derived.md)."""

from .curve import list_points_of_derived_curve as list_points_of_derived_curve
from .engine import bound_derived_delta as bound_derived_delta
from .engine import bound_derived_epsilon as bound_derived_epsilon
from .group_chains import DerivedLimits as DerivedLimits
from .inner_run import KnownRun as KnownRun
