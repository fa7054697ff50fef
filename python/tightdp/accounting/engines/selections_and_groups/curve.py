"""An upper bound of the whole curve of a repeated run or a group, from which a dominating pair is built.

The curve is delta as a function of epsilon. The dominating pair can be part of a longer composition
(docs/theory/derived.md section 3). A link is one changed record. The line of a link bounds the probability of an event
after the change by X p + D, where p is the probability before the change. A chain is the line that results from
applying one line for each link in turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....mechanisms import RepeatAndSelect
from ....mechanisms.selections_and_groups import SelectionOrGroup
from ...numerics.shared_work import try_to_spend_work
from ...pairs.selection_repetitions import build_selection_repetitions
from . import selections
from .group_chains import MARGIN, ChainOfLines, DerivedLimits, build_group_chain, find_crossing_of_group_chains
from .inner_run import KnownRun
from .lines import LinesOfInnerRun

_LOOSE = 1e-3
"""Relative gain below which no further line (``lines.py``) and no further chain (``group_chains.py``) is added."""
_FAINT = 1e-40
"""Height of a chain below which no more lines are added for the chain."""
_STEEPEST = 1e130
"""Largest slope of a chain, about e^299."""
_UNITS = 1000
"""Measured work units for one link of one chain."""
_MOST = 1000
"""Largest number of chains, which limits the number of corners of the curve."""


def list_selection_or_group_points(
    mechanism: SelectionOrGroup, links: Sequence[KnownRun], known: DerivedLimits
) -> list[tuple[float, float]]:
    """Returns points (e^epsilon, upper bound of delta) of the curve of ``mechanism``.

    Each point is the slope and the height of a chain of lines. The number of points depends on the budget of work.
    """
    if isinstance(mechanism, RepeatAndSelect):
        links = [selections.as_group_chain_link(build_selection_repetitions(mechanism), links[0])]
    distinct = {id(run): LinesOfInnerRun(run, _LOOSE / len(links)) for run in links}
    chain = [distinct[id(run)] for run in links]
    while True:
        found = _find_lowest_group_chains(chain, known)
        used = {
            (id(lines), i) for each in found for lines, i in zip(chain, each.used, strict=True) if each.height > _FAINT
        }
        refined = [lines.refine_lines([i for owner, i in used if owner == id(lines)]) for lines in distinct.values()]
        if not any(refined) or not try_to_spend_work(0):
            break
    return [(each.slope * (1 + 2 * MARGIN), min(each.height * (1 + MARGIN), 1.0)) for each in found if each.slope > 0]


def _find_lowest_group_chains(links: Sequence[LinesOfInnerRun], known: DerivedLimits) -> list[ChainOfLines]:
    """Returns chains that are lowest at some p. A chain that is hardly below its neighbours is left out."""
    lines = known.group_chain_limit_lines
    steep, flat = build_group_chain(links, lines, 0.0), build_group_chain(links, lines, 1.0)
    if not steep.slope <= _STEEPEST:
        steep = build_group_chain(links, lines, 1 / _STEEPEST)
    found = [steep, flat]
    beside = [(steep, flat)]
    while beside and len(found) < _MOST and try_to_spend_work(_UNITS * len(links)):
        one, other = beside.pop(0)
        at = find_crossing_of_group_chains(one, other)
        if not 0 < at < 1:
            continue
        between = build_group_chain(links, lines, at)
        if between.slope * at + between.height < (one.slope * at + one.height) * (1 - _LOOSE):
            found.append(between)
            beside += [(one, between), (between, other)]
    return found
