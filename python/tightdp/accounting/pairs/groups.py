"""A group of records in a Poisson sample of Gaussian noise: mixtures (docs/theory/derived.md section 2)."""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from functools import lru_cache

from ... import mechanisms as m
from ...derived import scaled
from .replaced import Replaced, ReplacedGaussian

_MOST = 999
"""Records whose number in the sample is one component each of a mixture."""
_MARGIN = 1e-12
"""By which probabilities are moved up or down: more than a thousand of them round by in their sum."""
_LEAST = 1e-300


def of_group(mechanism: m.Mechanism, size: int) -> m.Mechanism:
    """What a group of ``size`` is known to be exposed to at least; one of its records, where nothing else is known."""
    return mixture(mechanism, size, up=False) or scaled(mechanism, size) or mechanism


def mixture(mechanism: m.Mechanism, size: int, up: bool) -> m.Mechanism | None:
    """A mixture that dominates a group's pair (``up``), or that it dominates: equal but for roundings."""
    match mechanism:
        case m.PoissonSampled(m.Gaussian(sigma), q) if q < 1 and size <= _MOST:
            return _mixture(sigma, q, size, up)
        case ReplacedGaussian(sigma, q) if q < 1 and size <= _MOST:
            return Replaced(_mixture(sigma, q, size, up))
    return None


def _mixture(sigma: float, q: float, size: int, up: bool) -> m.MixtureOfGaussians:
    shares = _binomial(q, size, up)
    return m.MixtureOfGaussians(sigma, tuple(map(float, shares)), tuple(shares.values()))


@lru_cache(maxsize=64)
def _binomial(q: float, size: int, up: bool) -> dict[int, float]:
    """Of how many of the group are in the sample: probabilities whose upper tails are no smaller, or no larger."""
    found: dict[int, float] = {}
    left = 1.0
    with localcontext(Context(prec=40)):
        inside, outside = Decimal(q), 1 - Decimal(q)
        for k in range(size, 0, -1):
            p = float(math.comb(size, k) * inside**k * outside ** (size - k))
            share = max(p * (1 + _MARGIN), _LEAST) if up else p * (1 - _MARGIN)
            share = min(share, left)
            if share >= _LEAST:
                found[k] = share
                left -= share
    if left > 0:
        found[0] = left
    return found
