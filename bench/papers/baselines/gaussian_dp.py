"""The central limit theorem of Gaussian differential privacy (Dong, Roth and Su 2019; Bu et al. 2019)."""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.stats import norm


def approximate_epsilon(noise_multiplier: float, sampling_probability: float, steps: int, delta: float) -> float:
    """Returns the epsilon of the limit for Poisson-sampled Gaussians: an approximation, and often too small.

    The limit is Gaussian DP with mu = q sqrt(T (exp(1/sigma^2) - 1)).
    """
    mu = sampling_probability * math.sqrt(steps * math.expm1(noise_multiplier**-2))

    def missing(epsilon: float) -> float:
        return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)) - delta

    return float(brentq(missing, 0.0, mu * mu / 2 + 40 * mu))
