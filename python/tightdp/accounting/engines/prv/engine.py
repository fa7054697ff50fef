"""The engine of Gopi, Lee and Wutschitz (2021), with their two-sided bounds, which are widened by all rounding errors.

Privacy losses are discretised without changing their means, and composed by one real Fourier transform for each
distinct mechanism. The resulting curve, delta as a function of epsilon, is right up to ``eps_error`` in epsilon and
``delta_error`` in delta (docs/theory/prv.md). These errors are additive. So lower bounds are loose for deltas near
``delta_error``, or near the rounding of the transform (about 1e-14 for each step). Upper bounds of such deltas come
from moments alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...._core import prv_delta, prv_epsilon
from ....mechanisms import ApproximateDP, Gaussian, Laplace, Mechanism, PoissonSampled, PureDP, RandomizedResponse
from ...numerics.outward import Range, log1p
from ..engine_interface import DEFAULT, Bound, Direction, Parts, Request

_MOST_RUNS = 10**15
"""Largest count of a mechanism. Counts up to this one are exact as floats. A composition of more steps would need more
memory than is allowed."""

_LEAST, _MOST = 1e-3, 1e6
"""Smallest and largest noise multiplier that are served. The squares of both, the inverses of these squares and the
losses are far from overflow and underflow."""


class Prv:
    """The engine of privacy random variables.

    If the function ``compose`` is given, it replaces the compiled core in composing discretised losses
    (``spectral.py``). The function takes ``bytes_a_point`` bytes of a device's memory for each grid point.
    """

    def __init__(
        self, name: str = "prv", compose: Callable[..., Any] | None = None, bytes_a_point: float = 0.0
    ) -> None:
        self.name = name
        self._where = compose, bytes_a_point

    def explain_refusal(self, parts: Parts, direction: Direction) -> str | None:
        """Returns the reason for refusing the first mechanism or count that is not served; None if all are."""
        for mechanism, count in parts:
            if _describe_prv_engine_loss(mechanism, direction) is None:
                return (
                    f"it serves Gaussian, Laplace, PureDP, ApproximateDP, binary RandomizedResponse and "
                    f"PoissonSampled(Gaussian), noise multipliers in [{_LEAST:g}, {_MOST:g}], not {mechanism!r}"
                )
            if count > _MOST_RUNS:
                return f"it counts up to {_MOST_RUNS:g} runs of a mechanism, not {count}"
        return None if parts else "nothing was composed"

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Bound:
        """Bounds epsilon. The width that the term "mesh" does not explain is divided among the other error terms."""
        # An error as large as delta would leave only the moment bound. A smaller error takes little more work.
        delta_error = max(min(request.delta_error, 1e-3 * delta), 1e-18)

        def ask_prv_for_epsilon(runs: list[_Run]) -> _Found:
            return prv_epsilon(
                runs, delta, request.eps_error, delta_error, request.max_bytes, *self._where
            )[:5]  # fmt: skip

        lower, upper, mesh, tails, rounding = _ask_prv_with_both_roundings(parts, direction, ask_prv_for_epsilon)
        rest = upper - lower - 2 * mesh if math.isfinite(upper) else 0.0
        share = max(rest, 0.0) / (tails + rounding) if tails + rounding > 0 else 0.0
        return Bound(lower, upper, self.name, {"mesh": 2 * mesh, "tails": share * tails, "rounding": share * rounding})

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Bound:
        """Bounds delta. The term "mesh" is the width that the other error terms do not explain."""

        def ask_prv_for_delta(runs: list[_Run]) -> _Found:
            return prv_delta(
                runs, epsilon, request.eps_error, request.delta_error, request.max_bytes, *self._where
            )[:5]  # fmt: skip

        lower, upper, _, tails, rounding = _ask_prv_with_both_roundings(parts, direction, ask_prv_for_delta)
        mesh = max(upper - lower - 2 * (tails + rounding), 0.0)
        return Bound(lower, upper, self.name, {"mesh": mesh, "tails": 2 * tails, "rounding": 2 * rounding})


ENGINE = Prv()

_Run = tuple[str, float, float, int, float]
"""The name of a loss, its parameter, the sampling probability, the count, and the probability of an infinite loss."""


_Found = tuple[float, float, float, float, float]
"""The lower end, the upper end, and the error terms "mesh" (of the grid's spacing, in epsilon), "tails" and "rounding"
(in delta)."""


def _ask_prv_with_both_roundings(parts: Parts, direction: Direction, ask: Callable[[list[_Run]], _Found]) -> _Found:
    """Returns the upper end for parameters that were rounded up, and the lower end for parameters rounded down."""
    high, low = _list_prv_runs(parts, direction, True), _list_prv_runs(parts, direction, False)
    found = ask(high)
    return found if low == high else (ask(low)[0], *found[1:])


def _list_prv_runs(parts: Parts, direction: Direction, high: bool) -> list[_Run]:
    """Returns the composition as the core takes it, with parameters rounded up or down."""
    found = []
    for mechanism, count in parts:
        loss = _describe_prv_engine_loss(mechanism, direction, high)
        assert loss is not None, "refused parts were asked"
        name, parameter, q, failure = loss
        found.append((name, parameter, q, count, failure))
    return found


def _describe_prv_engine_loss(
    mechanism: Mechanism, direction: Direction, high: bool = True
) -> tuple[str, float, float, float] | None:
    """Returns the core's name of a loss, with its parameters; None if the engine does not serve the mechanism.

    Parameters that are not doubles are rounded up if ``high``, and otherwise down.
    """
    match mechanism:
        case Gaussian(sigma) if _LEAST <= sigma <= _MOST:
            return "gaussian", 1 / sigma, 1.0, 0.0
        case Laplace(scale) if _LEAST <= scale <= _MOST:
            return "laplace", 1 / scale, 1.0, 0.0
        case PureDP():
            return "pure", mechanism.nominal_epsilon, 1.0, 0.0
        case ApproximateDP():
            if mechanism.nominal_delta == 1:
                return "pure", 0.0, 1.0, 1.0
            return "pure", mechanism.nominal_epsilon, 1.0, mechanism.nominal_delta
        case RandomizedResponse(p, 2):
            loss = log1p(2 * ((1 - Range(p)) / p))
            return "pure", loss.hi if high else max(loss.lo, 0.0), 1.0, 0.0
        case PoissonSampled(Gaussian(sigma), q) if _LEAST <= sigma <= _MOST:
            if q == 1:
                return "gaussian", 1 / sigma, 1.0, 0.0
            return f"sampled_{direction}", sigma, q, 0.0
    return None
