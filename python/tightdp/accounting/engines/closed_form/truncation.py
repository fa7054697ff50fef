"""Probabilities of Poisson samples that are cut to a largest size (docs/theory/mixtures.md section 5)."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...._core import work_charge
from ...numerics.outward import ULP, Range
from .binomial import CONTEXT, NEGLIGIBLE, compute_closed_form_binomial_mass

_MOST_TERMS = 1 << 21
"""Largest number of terms of a tail that are summed. Their sum takes 35 milliseconds. A geometric series bounds the
further terms."""
_UNITS = 20
"""Measured work units for one term."""
_CHUNK = 1 << 16
"""Largest number of terms that are computed at once."""


class Truncation(NamedTuple):
    """Probabilities of a Poisson sample that is cut to a largest size, for one given record.

    The batch is the sample after the cut.
    """

    cut: Range
    """The probability that the sample has at least as many of the other records as a batch can hold."""
    within: Range
    """The conditional probability that the given record is in the batch, given the event of ``cut``."""
    drawn: Range
    """The probability that the given record is in the batch."""


def compute_sample_truncation(q: float, batch_size: int, dataset_size: int) -> Truncation:
    """Returns the probabilities of ``Truncation`` as ranges."""
    return _compute_truncation_with_terms(q, batch_size, dataset_size)[0]


def charge_sample_truncation(q: float, batch_size: int, dataset_size: int) -> None:
    """Charges the work of ``compute_sample_truncation``, whether its result is cached or not."""
    work_charge(_UNITS * _compute_truncation_with_terms(q, batch_size, dataset_size)[1])


@lru_cache(maxsize=256)
def _compute_truncation_with_terms(q: float, batch_size: int, dataset_size: int) -> tuple[Truncation, int]:
    """Returns the truncation, and the number of terms that were added up to compute the truncation."""
    tail, terms = sum_tail_of_truncation(dataset_size - 1, q, batch_size)
    cut = tail.limit_range_to(0.0, 1.0)
    # The largest possible value of ``within``, reached if exactly batch_size other records are sampled.
    most = (Range(q) * batch_size / (batch_size + 1)).limit_range_to(0.0, 1.0)
    tail, more = sum_tail_of_truncation(dataset_size, q, batch_size + 1)
    both = tail * (Range(batch_size) / dataset_size)  # P(event of ``cut``, and the record is in the batch)
    within = Range(0.0, most.hi)
    if cut.lo > 0:
        found = both / cut
        within = Range(min(found.lo, most.hi), min(found.hi, most.hi))
    return Truncation(cut, within, ((1 - cut) * q + both).limit_range_to(0.0, q)), terms + more


def sum_tail_of_truncation(n: int, q: float, least: int) -> tuple[Range, int]:
    """Returns P[Bin(n, q) >= least] and the number of terms of its sum.

    Let the mode be the most likely number. If ``least`` is at or above the mode, the sum runs upward from ``least``.
    Otherwise the sum runs downward from ``least`` - 1, and is subtracted from 1. Each term is the
    product of the term before it and a ratio, and these ratios fall in both directions.
    """
    if least > n:
        return Range(0.0), 0
    if least <= 0 or q == 1:
        return Range(1.0), 0
    with localcontext(CONTEXT):
        log_p, log_q = Decimal(q).ln(), (1 - Decimal(q)).ln()
    odds = q / (1 - q)
    above = least >= math.floor((n + 1) * q)
    start = least if above else least - 1
    total, slack, last, done, chunk = 0.0, 0.0, 1.0, 0, min(_CHUNK, n + 1)
    while True:
        i = start + np.arange(done, done + chunk, dtype=np.float64) * (1 if above else -1)
        ratio = np.maximum((n - i) / (i + 1) * odds if above else i / (n - i + 1) / odds, 0.0)
        terms = last * np.concatenate(([1.0], np.cumprod(ratio[:-1])))
        total += float(terms.sum())
        # A ratio has five roundings, including the rounding of the odds. One more rounding comes from multiplying the
        # ratio by the term before.
        slack += float((terms * (8 * ULP * np.arange(done + 1, done + chunk + 1))).sum()) + 64 * ULP * total
        last, following = float(terms[-1] * ratio[-1]), float(ratio[-1])
        done += chunk
        rest = last / (1 - following) if following < 1 else math.inf
        if rest <= NEGLIGIBLE * total or done >= _MOST_TERMS:
            break
    found = compute_closed_form_binomial_mass(n, start, log_p, log_q) * Range(
        max(total - slack, 0.0), (total + slack + rest) * (1 + 4 * ULP)
    )
    return (found if above else 1 - found).limit_range_to(0.0, 1.0), done
