"""Tail probabilities of the binomial distribution, and confidence limits of a proportion (Clopper and Pearson 1934)."""

from __future__ import annotations

import math

from .._support import _check
from ..accounting.numerics.root import bracket_monotone_crossing

TAIL_ERROR = 1e-7
"""Bound on the relative error of ``compute_attack_tail_probability`` for n <= ``MOST_TRIALS`` trials. The bound is
several times the error of the three log-gammas in ``compute_attack_log_pmf``. Each log-gamma is at most n log n, and is
rounded by at most 4 units in the last place. The error of the continued fraction, about 1e-15, is negligible."""
MOST_TRIALS = 10**6
"""Largest number of trials for which ``TAIL_ERROR`` was derived."""
_TINY = 1e-300
"""Replacement for a denominator of the continued fraction that is between -1e-300 and 1e-300."""
_TERMS = 100_000
"""Largest number of terms of the continued fraction. About sqrt(n) terms are needed for n trials (Press et al.,
Numerical Recipes, section 6.4)."""


def compute_attack_log_pmf(k: int, n: int, p: float) -> float:
    """Returns log P[Binomial(n, p) = k] for 0 <= k <= n and p in [0, 1]."""
    if p <= 0.0 or p >= 1.0:
        certain = 0 if p <= 0.0 else n
        return 0.0 if k == certain else -math.inf
    choose = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return choose + k * math.log(p) + (n - k) * math.log1p(-p)


def compute_attack_tail_probability(k: int, n: int, p: float) -> float:
    """Returns P[Binomial(n, p) >= k] for any integer k and p in [0, 1], with a relative error of at most
    ``TAIL_ERROR``.

    The probability is the regularised incomplete beta function I_p(k, n - k + 1). Either I_p or 1 - I_p is evaluated by
    a continued fraction, depending on which fraction converges fast.
    """
    if k <= 0 or p >= 1.0:
        return 1.0 if k <= n else 0.0
    if k > n or p <= 0.0:
        return 0.0
    a, b = float(k), float(n - k + 1)
    if p < (a + 1) / (a + b + 2):
        return math.exp(compute_attack_log_pmf(k, n, p)) * (1 - p) * _evaluate_attack_continued_fraction(a, b, p)
    # P[X >= k] = 1 - P[n - X >= n - k + 1], where n - X has success probability 1 - p
    return 1.0 - math.exp(compute_attack_log_pmf(k - 1, n, p)) * p * _evaluate_attack_continued_fraction(b, a, 1 - p)


def _evaluate_attack_continued_fraction(a: float, b: float, x: float) -> float:
    """Returns the continued fraction of the incomplete beta function, a I_x(a, b) B(a, b) / (x^a (1-x)^b), by Lentz's
    method. Here I is the regularised incomplete beta function, and B is the beta function."""
    c, d = 1.0, 1.0 / _replace_tiny_denominator(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _TERMS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / _replace_tiny_denominator(1 + term * d)
            c = _replace_tiny_denominator(1 + term / c)
            value *= d * c
        if abs(d * c - 1) < 1e-15:
            return value
    raise AssertionError("the continued fraction of the incomplete beta function did not converge")


def _replace_tiny_denominator(x: float) -> float:
    return x if abs(x) > _TINY else _TINY


def lower_limit(successes: int, trials: int, error: float) -> float:
    """Returns a lower confidence limit of a proportion, which exceeds the true proportion with probability at most
    ``error``.

    The limit is the p with P[X >= successes] = error, where X is binomial with ``trials`` trials of probability p.

    ``trials`` is an integer in [0, 10^6], ``successes`` an integer in [0, ``trials``], and ``error`` is in (0, 1).
    Raises ValueError or TypeError, which names the argument, for any other value.

    This one-sided limit is Clopper and Pearson's. It may be slightly smaller than theirs, because the computed
    probability is first increased by the relative error ``TAIL_ERROR``.

    >>> round(lower_limit(90, 100, 0.05), 3)
    0.836
    """
    return _find_lower_limit(*_check_audit_proportion(successes, trials, error))


def _check_audit_proportion(successes: int, trials: int, error: float) -> tuple[int, int, float]:
    """Checks the arguments of a confidence limit, and returns them."""
    trials = _check.check_count_argument("trials", trials, least=0, most=MOST_TRIALS)
    successes = _check.check_count_argument("successes", successes, least=0, most=trials)
    return successes, trials, _check.open_unit("error", error)


def _find_lower_limit(successes: int, trials: int, error: float) -> float:
    """Returns ``lower_limit`` of checked arguments."""
    if successes == 0:
        return 0.0
    most = successes / trials
    return bracket_monotone_crossing(
        lambda p: compute_attack_tail_probability(successes, trials, p) * (1 + TAIL_ERROR) <= error, most, 1e-15, most
    )[0]


def upper_limit(successes: int, trials: int, error: float) -> float:
    """Returns an upper confidence limit of a proportion, which is below the true proportion with probability at most
    ``error``.

    ``successes``, ``trials`` and ``error`` are as for ``lower_limit``, which raises the same errors.

    >>> round(upper_limit(90, 100, 0.05), 3)
    0.945
    """
    successes, trials, error = _check_audit_proportion(successes, trials, error)
    return min(1.0, math.nextafter(1.0 - _find_lower_limit(trials - successes, trials, error), 2.0))
