"""A fast upper bound on epsilon for small noise multipliers.

The bound usually exceeds the exact epsilon by at most one part in 1,000.
"""

from __future__ import annotations

import math

from ..._core import Budget
from ...mechanisms import Gaussian, PoissonSampled
from ..engines import closed_form, contour, participations
from ..engines.engine_interface import Direction, Parts
from ..questions.question import Question
from .accountant import Accountant

_LITTLE = 0.4
"""Largest noise multiplier that counts as little noise. With little noise, the privacy loss of a step is almost always
close to one of a few values, and the exact bound takes up to 0.4 s."""
_NARROW = 1e-6
"""Relative width of a bound that counts as exact."""
_EXACT_UNITS, _UNITS = 2_000_000, 20_000_000
"""Work units: ``_EXACT_UNITS`` for the exact bound if another bound can follow, and ``_UNITS`` for any other bound."""
_LEAST = 0.025
"""Smallest noise multiplier for which a further Gaussian is composed with the run to smooth its losses. With less
noise, the sums over nodes would take too long. The bound for less noise assumes that every step whose sample holds the
record reveals everything. This assumption adds at most one part in 100 to epsilon."""
_PRODUCTS = 1.5e7
"""Largest number of products for all inversions of one direction. So many products take about five milliseconds. An
inversion computes epsilon by a numerical integral. The number of products of an inversion is its number of nodes times
its number of abscissae."""
_FIRST_MU = 0.04
"""The first mu of the further Gaussian is this number divided by the smallest noise multiplier. The mu of a Gaussian is
the inverse of its noise multiplier. This Gaussian adds about one part in 1,000 to epsilon."""
_EXCESS = 1e-5
"""Relative amount that the further Gaussian may add to epsilon. The amount may be larger if a smaller one would take
more products than ``_PRODUCTS``."""
_TOLERANCE = 1e-5
"""Relative error of delta, which causes a relative error of epsilon of about the same size."""


def bound_epsilon_of_small_noise(account: Accountant, delta: float) -> float | None:
    """Returns an upper bound on epsilon of an account of Gaussians with little noise.

    Returns None if there is more noise, if there are other mechanisms, if a closed form serves the account, or if no
    bound is finite.
    """
    composition = account.composition
    parts, noise = composition.parts, math.inf
    for mechanism, _ in parts:
        match mechanism:
            case PoissonSampled(Gaussian(sigma), q) if q < 1:
                noise = min(noise, sigma)
            case Gaussian():
                pass
            case _:
                return None
    if noise > _LITTLE or closed_form.ENGINE.explain_refusal(parts, "remove") is None:
        return None
    with Budget(_UNITS):
        kept = account._kept_epsilon(account._shared.state, account.neighbors, delta)
    if kept is not None:
        return kept.upper
    known = math.inf
    if participations.ENGINE.explain_refusal(parts, "remove") is None:
        seen = Question(composition, engine=participations.ENGINE).epsilon(delta)
        if seen.width <= _NARROW * seen.upper < math.inf:
            return seen.upper
        known = seen.upper
    removed, added = math.inf, _bound_epsilon_of_adding_with_small_noise(parts, delta)
    if contour.ENGINE.explain_refusal(parts, "remove") is None:
        with Budget(_EXACT_UNITS if noise >= _LEAST else _UNITS):
            exact = Question(composition, engine=contour.ENGINE).epsilon(delta)
        if exact.width <= _NARROW * exact.upper < math.inf:
            return exact.upper
    if noise >= _LEAST:
        removed = _bound_small_noise_by_smoothing(parts, "remove", delta, noise)
        if added > removed:
            added = min(added, _bound_small_noise_by_smoothing(parts, "add", delta, noise))
    found = min(max(removed, added), known)
    return found if math.isfinite(found) else None


def _bound_epsilon_of_adding_with_small_noise(parts: Parts, delta: float) -> float:
    """Returns an upper bound on epsilon in the direction "add" (docs/theory/closed-forms.md section 5)."""
    never = -math.fsum(n * math.log1p(-m.sampling_probability) for m, n in parts if isinstance(m, PoissonSampled))
    plain = tuple(part for part in parts if isinstance(part[0], Gaussian))
    rest = closed_form.ENGINE.epsilon(plain, "add", delta).upper if plain else math.log1p(-delta)
    return max(never + rest + _ROUNDING * (never + abs(rest)), 0.0)


_ROUNDING = 1e-12
"""Relative margin of a sum of terms, larger than its rounding."""


def _bound_small_noise_by_smoothing(parts: Parts, direction: Direction, delta: float, noise: float) -> float:
    """Returns an upper bound on epsilon: the smallest of the bounds for the parts composed with one further Gaussian.

    Each bound has a smaller mu of the further Gaussian than the bound before. The search ends before the number of
    products exceeds ``_PRODUCTS``. The proof is in docs/theory/contour.md section 12.
    """
    best, mu, left = math.inf, _FIRST_MU / noise, _PRODUCTS
    before: tuple[float, float] | None = None
    while True:
        with Budget(_UNITS):
            found, products = contour.run_contour_engine_with_gaussian(parts, direction, delta, mu * mu, _TOLERANCE)
        if found == 0 or math.isinf(found):
            return min(best, found)
        best, left, wanted = min(best, found), left - products, 0.5 * mu
        if before is not None:
            per_square = max((before[1] - found) / (before[0] ** 2 - mu * mu), 0.0)
            if per_square * mu * mu <= 1.5 * _EXCESS * found:
                return best
            wanted = math.sqrt(_EXCESS * found / per_square)
        # ``least`` is the smallest mu for which the remaining products suffice, because the number of products grows at
        # most like 1/mu^2.
        least = mu * math.sqrt(products / left) if left > 0 else math.inf
        if max(wanted, least) > 0.9 * mu:
            return best
        before, mu = (mu, found), max(wanted, least)
