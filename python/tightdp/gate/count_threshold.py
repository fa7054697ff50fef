"""When a value is frequent: the threshold that noisy counts must reach (docs/theory/frequent.md)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import NormalDist

MOST_NOISE = 2.0**32
LEAST = 5e-301
"""Of a failure: the tail that the threshold rests on is accurate so far."""


def occurring(texts: Iterable[str], missing: Iterable[str]) -> Counter[str]:
    """How many records have each value."""
    none = frozenset(missing)
    return Counter(text for text in texts if text not in none)


def reaching(values: Sequence[str], noisy_counts: Sequence[int], least: int) -> tuple[str, ...]:
    """The values whose noisy counts reach ``least``, in their order."""
    return tuple(value for value, count in zip(values, noisy_counts, strict=True) if count >= least)


def column_threshold(columns: int, noise_multiplier: float, failure: float) -> tuple[float, int]:
    """The noise of one count, and the threshold. ValueError for more noise than there are records anywhere."""
    sigma = noise_multiplier * math.sqrt(columns) * (1 + 2.0**-50)
    if sigma > MOST_NOISE:
        raise ValueError(f"epsilon must be larger: it would take noise of {sigma:.2g} records")
    each = failure / columns * (1 - 2.0**-50)
    if each < LEAST:
        raise ValueError(f"delta must be larger: {each:.2g} of it are left for each column, and {LEAST:g} is the least")
    return sigma, threshold(sigma, each)


def threshold(sigma: float, failure: float) -> int:
    """The least T with P(1 + floor(sigma Z + 1/2) >= T) <= failure, Z standard normal; never less."""
    least = max(2, math.ceil(1.5 - sigma * NormalDist().inv_cdf(failure)) - 2) if failure < 0.5 else 2
    while 0.5 * math.erfc((least - 1.5) / sigma / math.sqrt(2)) * (1 + 1e-9) > failure:
        least += 1
    return least
