"""Bounds for one ``RepeatAndSelect`` or ``Group``, from bounds for the run of mechanisms inside."""

from __future__ import annotations

from collections.abc import Sequence

from ....mechanisms import RepeatAndSelect
from ....mechanisms.selections_and_groups import SelectionOrGroup
from ...numerics.outward import INF, expm1
from ..engine_interface import Bound
from . import group_chains, selections
from .group_chains import DerivedLimits
from .inner_run import KnownRun

_NAME = "derived"


def bound_selection_or_group_delta(
    mechanism: SelectionOrGroup, links: Sequence[KnownRun], epsilon: float, known: DerivedLimits, above: bool = False
) -> Bound:
    """Returns bounds on delta(epsilon) at any finite epsilon. With ``above``, only the upper bound is used.

    For a group, ``links`` has one run for each link of a chain of neighbours. For ``RepeatAndSelect``, ``links`` has
    only the repeated run.
    """
    least = max((-expm1(epsilon)).lo, 0.0)
    if isinstance(mechanism, RepeatAndSelect):
        lower, upper = selections.bound_delta_of_selection(mechanism, links[0], epsilon, known, above)
    else:
        lower, upper = 0.0, group_chains.bound_group_delta(links, epsilon, known)
    lower = max(lower, least)
    return Bound(lower, min(max(upper, lower), 1.0), _NAME)


def bound_selection_or_group_epsilon(
    mechanism: SelectionOrGroup, links: Sequence[KnownRun], delta: float, known: DerivedLimits
) -> Bound:
    """Returns bounds on inf{eps >= 0 : delta(eps) <= delta} for delta in (0, 1)."""
    if isinstance(mechanism, RepeatAndSelect):
        lower, upper = selections.bound_epsilon_of_selection(mechanism, links[0], delta, known)
    else:
        lower, upper = 0.0, group_chains.bound_group_epsilon(links, delta, known)
    return Bound(min(lower, upper), max(upper, 0.0), _NAME) if upper < INF else Bound(lower, INF, _NAME)
