"""The charge of several runs, each of which continues an earlier run on other records."""

from __future__ import annotations

from ...composition import Composition


def combine_estimator_fit_charges(one: Composition, other: Composition) -> Composition:
    """Returns the smallest composition that contains both compositions.

    The count of each mechanism is the larger of its counts in the two compositions.
    """
    counts = dict(one.parts)
    for mechanism, count in other.parts:
        counts[mechanism] = max(count, counts.get(mechanism, 0))
    return Composition(counts.items())
