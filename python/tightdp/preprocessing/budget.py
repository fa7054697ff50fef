"""The part of a budget that is left for one step, when what others cost is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from ..accounting.calibrate import calibrate
from ..composition import Composition

T = TypeVar("T")
CLOSE = 1e-6
"""Part of the target that may be left unspent: an evaluation may take a second, and each more brings a digit or two."""
MOST = 12
"""Proportional steps, of which three to five are usual."""


def left_for(
    plan: Callable[[float], T], whole: Callable[[T], Composition], *, epsilon: float, delta: float, start: float
) -> T:
    """The plan for about the largest epsilon of one step with which the ``whole`` meets (``epsilon``, ``delta``).

    ``whole`` is what ``plan(e)`` costs together with everything else. ``start`` is a guess of e. Nothing rests on the
    guess: what is returned was asked for its bound. ValueError where there is no such e, or a step refuses.
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
