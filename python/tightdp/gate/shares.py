"""One budget for several steps: equal shares of it, and what is left for the last step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from ..accounting.questions.calibration import calibrate
from ..composition import Composition
from .budget import Caps, split_off_gaussians

T = TypeVar("T")
CLOSE = 1e-6
"""Part of the target that may be left unspent. An evaluation may take a second, and each more brings a digit or two."""
MOST = 12
"""Largest number of proportional steps. Three to five are usual."""
SLACK = 1e-7
"""Relative excess of the cap on a step's Gaussians over the planned sum. The number of features or labels may be known
only by releases, and noise is calibrated to 1e-9 for any number of them."""
FAILURE = 0.1
"""Share of delta for the event that a category or a label of one record alone is released. Noise does not cover this
event, and the threshold depends on the share's logarithm."""


class NoiseShare(NamedTuple):
    """Budget of a step: the noise of one Gaussian that is as private as all its Gaussians, and a delta besides."""

    noise_multiplier: float
    failure: float

    def divide_equally(self, among: int) -> NoiseShare:
        """Returns one of ``among`` equal parts."""
        return NoiseShare(self.noise_multiplier * among**0.5 * (1 + 2.0**-50), self.failure / among * (1 - 2.0**-50))


def plan_with_remaining_budget(
    plan: Callable[[float], T], whole: Callable[[T], Composition], *, epsilon: float, delta: float, start: float
) -> T:
    """Returns the plan for about the largest epsilon of one step with which the ``whole`` meets (``epsilon``,
    ``delta``).

    ``whole`` returns the cost of ``plan(e)`` together with everything else. ``start`` is a guess of e. Nothing rests on
    the guess, because the returned plan was asked for its bound. ValueError if no e will do, or a step refuses.
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
        plan(e if math.isfinite(e) and 0 < e <= 1e6 else start)  # its own error, if the step refuses its settings
        raise ValueError(
            f"delta must leave a part of epsilon to divide: epsilon={epsilon!r} and delta={delta!r} leave none that is "
            "within what the steps can be given"
        ) from None
    return plan(part)


def build_caps(charge: Composition) -> Caps:
    """Returns caps that cover a charge, and every other one with Gaussians of at most the same sum."""
    gaussians, others = split_off_gaussians(charge)
    return Caps(gaussians * (1 + SLACK), others)


def check_within(charge: Composition, planned: Caps, message: str) -> None:
    """Raises ValueError unless ``planned`` covers the charge; both follow from what was released."""
    gaussians, others = split_off_gaussians(charge)
    most, allowed = split_off_gaussians(planned.charge())
    if gaussians > most or not dict(others).items() <= dict(allowed).items():
        raise ValueError(message.format(f"{charge!r}"))
