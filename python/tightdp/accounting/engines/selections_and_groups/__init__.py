"""Bounds of repeated runs and of groups, from the curve of one run or record (docs/theory/derived.md)."""

from .curve import list_selection_or_group_points as list_selection_or_group_points
from .engine import bound_selection_or_group_delta as bound_selection_or_group_delta
from .engine import bound_selection_or_group_epsilon as bound_selection_or_group_epsilon
from .group_chains import DerivedLimits as DerivedLimits
from .inner_run import KnownRun as KnownRun
