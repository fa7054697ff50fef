"""Division of one budget among several steps: into equal shares, or with the remaining budget for the last step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from ..accounting.questions.calibration import calibrate
from ..composition import Composition
from .budget import Caps, split_gaussians_from_gate_charge

T = TypeVar("T")
CLOSE = 1e-6
"""Relative part of the target epsilon that may be left unspent. For a smaller part, more bounds would be computed,
and each bound may take a second."""
MOST = 12
"""Largest number of iterations that scale epsilon in proportion to the bound. Three to five iterations are usual."""
SLACK = 1e-7
"""Relative margin by which a step's cap exceeds the planned sum of 1/noise_multiplier^2 over the step's Gaussians. The
cap is set before releases tell the number of features or labels. The number of features or labels changes the sum by
less than the margin, because noise is calibrated to 1e-9."""
FAILURE = 0.1
"""Share of delta for the event that a category or a label of a single record is released. Noise does not cover this
event. The threshold depends only on the logarithm of the share, so the exact share matters little."""


class NoiseShare(NamedTuple):
    """The budget of a step."""

    noise_multiplier: float
    """Noise multiplier of one Gaussian that is as private as all Gaussians of the step together."""
    failure: float
    """Probability, taken from delta, of an event that noise does not cover."""

    def divide_equally(self, among: int) -> NoiseShare:
        """Returns one of ``among`` equal parts."""
        return NoiseShare(self.noise_multiplier * among**0.5 * (1 + 2.0**-50), self.failure / among * (1 - 2.0**-50))


def find_remaining_gate_budget_share(
    plan: Callable[[float], T], whole: Callable[[T], Composition], *, epsilon: float, delta: float, start: float
) -> T:
    """Returns ``plan(e)`` for about the largest e with which the whole run is (``epsilon``, ``delta``)-DP.

    ``e`` is the epsilon of one step. ``whole(plan(e))`` is the composition of that step and all other steps. ``start``
    is a first guess of e, and a bad guess only costs time. Raises ValueError if no e is small enough, or if ``plan``
    raises ValueError.
    """
    e = start
    for _ in range(MOST):
        if not (math.isfinite(e) and 0 < e <= 1e6):
            break
        found = plan(e)
        spent = whole(found).epsilon(delta).upper
        if epsilon * (1 - CLOSE) <= spent <= epsilon:
            return found
        e *= epsilon * (1 - CLOSE / 2) / spent if spent > 0 else 2.0
    low, high = epsilon / 1000, min(10 * epsilon, 1e6)
    try:
        part = float(calibrate(lambda e: whole(plan(e)), epsilon=epsilon, delta=delta, low=low, high=high))
    except ValueError:
        plan(e if math.isfinite(e) and 0 < e <= 1e6 else start)  # raises the step's own error, if its settings are bad
        raise ValueError(
            f"delta must leave a part of epsilon to divide: epsilon={epsilon!r} and delta={delta!r} leave none that is "
            "within what the steps can be given"
        ) from None
    return plan(part)


def build_caps_for_gate_charge(charge: Composition) -> Caps:
    """Returns caps that cover a charge.

    The charge's Gaussians may be replaced by others whose sum of 1/noise_multiplier^2 is not larger."""
    gaussians, others = split_gaussians_from_gate_charge(charge)
    return Caps(gaussians * (1 + SLACK), others)


def check_gate_charge_within_caps(charge: Composition, planned: Caps, message: str) -> None:
    """Raises ValueError unless ``planned`` covers the charge. The error reveals nothing, because the charge and the
    caps follow from releases."""
    gaussians, others = split_gaussians_from_gate_charge(charge)
    most, allowed = split_gaussians_from_gate_charge(planned.charge())
    if gaussians > most or not dict(others).items() <= dict(allowed).items():
        raise ValueError(message.format(f"{charge!r}"))
