"""The charge of a private search, which covers all fits, their scores and the choice (docs/theory/tuning.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..accounting.questions.calibration import calibrate
from ..composition import Composition
from ..mechanisms import ApproximateDP, Gaussian, RepeatAndSelect
from .budget import split_gaussians_from_gate_charge

NEVER = 2.0**-53
"""Share of delta for the event that a search has no record to train on. This share is no larger than the rounding error
of delta."""


class SearchRun(NamedTuple):
    """One run of a search, which fits one candidate and releases its score. The charge covers every candidate."""

    score: float
    """Noise multiplier of the score."""
    charge: Composition
    """Composition that covers the charge of any fit, and also the charge of its score. The two charges do not add up,
    because a record is either in the training part or in the scored part."""


def find_covering_search_run(charges: Sequence[Composition], epsilon: float, delta: float) -> SearchRun:
    """Returns a run whose charge covers each of the ``charges`` (docs/theory/tuning.md, section 2). Every composition
    in ``charges`` must be (``epsilon``, ``delta``)-DP."""
    parts = [split_gaussians_from_gate_charge(charge) for charge in charges]
    squares, others = max(squares for squares, _ in parts), parts[0][1]
    if squares > 0 and all(each == others for _, each in parts):
        noise = 1 / math.sqrt(squares) * (1 - 2.0**-50)
        return SearchRun(1 / math.sqrt(squares), Gaussian(noise) + Composition(others))
    score = float(calibrate(Gaussian, epsilon=epsilon, delta=delta))
    return SearchRun(score, ApproximateDP(epsilon, delta) * 1)


def check_search_charge_covered(charge: Composition, cover: Composition) -> None:
    """Raises AssertionError unless ``cover``, which was planned for a run, covers the run's charge."""
    squares, others = split_gaussians_from_gate_charge(charge)
    most, allowed = split_gaussians_from_gate_charge(cover)
    known = all(isinstance(m, ApproximateDP) and m.nominal_epsilon for m, _ in allowed) and not most
    if not known and (squares > most or others != allowed):
        raise AssertionError(f"a run was charged {charge!r}, and {cover!r} was planned")


def convert_search_charge_for_ledger(charge: Composition, delta: float) -> Composition:
    """Returns the charge of a search in the form in which a ledger records it.

    If a mechanism of the search has a delta, the search has no finite Renyi divergence. Such a search is charged as
    (epsilon, delta)-DP.
    """
    inside = [m for search, _ in charge.parts if isinstance(search, RepeatAndSelect) for m, _ in search.parts]
    if any(isinstance(m, ApproximateDP) for m in inside):
        return ApproximateDP(charge.epsilon(delta).upper, delta) * 1
    return charge


def compute_fewest_search_records(holdout: float, delta: float) -> int:
    """Returns the least number of records such that all are held out with probability at most ``NEVER * delta``
    (docs/theory/tuning.md, section 3)."""
    return math.ceil((math.log(delta) + math.log(NEVER)) / math.log(holdout) * (1 + 1e-9)) + 1
