"""Normal tails and the Gaussian privacy curve in 50-digit arithmetic."""

from __future__ import annotations

import mpmath as mp

UNIT = mp.mpf(2) ** -53
"""Unit roundoff of float64."""


def error_in_units(computed: float, exact: mp.mpf) -> float:
    """|computed/exact - 1| in units of roundoff."""
    return float(abs(mp.mpf(computed) / exact - 1) / UNIT)


def cdf(x: float) -> mp.mpf:
    return mp.erfc(-mp.mpf(x) / mp.sqrt(2)) / 2


def mills_ratio(x: float) -> mp.mpf:
    x = mp.mpf(x)
    return mp.sqrt(mp.pi / 2) * mp.erfc(x / mp.sqrt(2)) * mp.exp(x * x / 2)


def log_cdf(x: float) -> mp.mpf:
    return mp.log1p(-cdf(-x)) if x > 0 else mp.log(cdf(x))


def gaussian_delta(mu: float, eps: float) -> mp.mpf:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)."""
    mu, eps = mp.mpf(mu), mp.mpf(eps)
    return cdf(mu / 2 - eps / mu) - mp.exp(eps) * cdf(-mu / 2 - eps / mu)
