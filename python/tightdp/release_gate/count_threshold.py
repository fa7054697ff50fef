"""The threshold that the noisy count of a value must reach for the value to be released (docs/theory/frequent.md)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import NormalDist

MOST_NOISE = 2.0**32
"""Largest standard deviation of a count's noise, in records. No table has so many records."""
LEAST = 5e-301
"""Smallest accepted probability that the value of a single record is released.

For smaller probabilities, the tail of the normal distribution, from which the threshold follows, is inaccurate."""


def count_values_for_threshold(texts: Iterable[str], missing: Iterable[str]) -> Counter[str]:
    """Counts the records that have each value. Records with a value in ``missing`` are left out."""
    none = frozenset(missing)
    return Counter(text for text in texts if text not in none)


def select_values_above_threshold(values: Sequence[str], noisy_counts: Sequence[int], least: int) -> tuple[str, ...]:
    """Returns the values whose noisy counts reach ``least``, in the order of ``values``."""
    return tuple(value for value, count in zip(values, noisy_counts, strict=True) if count >= least)


def compute_count_noise_and_threshold(columns: int, noise_multiplier: float, failure: float) -> tuple[float, int]:
    """Returns the standard deviation of one count's noise, in records, and the threshold.

    Raises ValueError if the deviation exceeds ``MOST_NOISE`` or if failure / columns is below ``LEAST``.
    """
    sigma = noise_multiplier * math.sqrt(columns) * (1 + 2.0**-50)
    if sigma > MOST_NOISE:
        raise ValueError(f"epsilon must be larger: it would take noise of {sigma:.2g} records")
    each = failure / columns * (1 - 2.0**-50)
    if each < LEAST:
        raise ValueError(f"delta must be larger: {each:.2g} of it are left for each column, and {LEAST:g} is the least")
    return sigma, find_noisy_count_threshold(sigma, each)


def find_noisy_count_threshold(sigma: float, failure: float) -> int:
    """Returns a T with P(1 + floor(sigma Z + 1/2) >= T) <= failure, where Z is standard normal.

    The returned T is the least such T, or slightly larger."""
    least = max(2, math.ceil(1.5 - sigma * NormalDist().inv_cdf(failure)) - 2) if failure < 0.5 else 2
    while 0.5 * math.erfc((least - 1.5) / sigma / math.sqrt(2)) * (1 + 1e-9) > failure:
        least += 1
    return least
