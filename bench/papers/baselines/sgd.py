"""Noise of private SGD by advanced composition (Bassily, Smith and Thakurta 2014) and by the moments accountant (Abadi
et al. 2016), the baselines SGD-Adv and SGD-MA of Lee and Kifer (2018).

Both are upper bounds on the cost of the Poisson-sampled Gaussian, and ask for more noise than the exact account does.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp

import tightdp as dp

MOMENTS = 32
"""Largest order lambda, as in the code of Abadi et al."""
LARGEST_NOISE = 1e6


def advanced_composition(epsilon: float, steps: int, slack: float) -> float:
    """Returns epsilon of so many steps of epsilon each, at ``slack`` more delta (Lee and Kifer, Theorem 3.4)."""
    return math.sqrt(2 * steps * math.log(1 / slack)) * epsilon + steps * epsilon * math.expm1(epsilon)


def noise_by_advanced_composition(epsilon: float, delta: float, sampling_probability: float, steps: int) -> float:
    """Returns the noise multiplier with which so many sampled steps are (epsilon, delta)-DP by Theorem 3.4.

    Half of delta is the slack of the composition, the other half is shared by the steps. A step's Gaussian is exact,
    where the paper has its Theorem 3.3, which holds for epsilon < 1 alone."""
    slack = delta / 2
    step = brentq(lambda e: advanced_composition(e, steps, slack) - epsilon, 0.0, epsilon, xtol=1e-15)
    unsampled = math.log1p(math.expm1(step) / sampling_probability)
    return float(dp.calibrate(dp.Gaussian, epsilon=unsampled, delta=slack / (steps * sampling_probability)))


def moment(order: int, noise_multiplier: float, sampling_probability: float) -> float:
    """Returns the logarithmic moment of one sampled Gaussian step, for a whole order."""
    n, q = order + 1, sampling_probability
    terms = [
        gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
        + (n - k) * math.log1p(-q) + k * math.log(q) + k * (k - 1) / (2 * noise_multiplier**2)
        for k in range(n + 1)
    ]  # fmt: skip
    return float(logsumexp(terms))


def moments_epsilon(noise_multiplier: float, sampling_probability: float, steps: int, delta: float) -> float:
    """Returns the epsilon of the moments accountant, which is never below log(1/delta)/32."""
    return min(
        (steps * moment(order, noise_multiplier, sampling_probability) - math.log(delta)) / order
        for order in range(1, MOMENTS + 1)
    )


def noise_by_moments(epsilon: float, delta: float, sampling_probability: float, steps: int) -> float:
    """Returns the noise multiplier of the moments accountant; raises ValueError if no noise is enough."""
    if moments_epsilon(LARGEST_NOISE, sampling_probability, steps, delta) > epsilon:
        raise ValueError(f"the moments accountant certifies no epsilon below {-math.log(delta) / MOMENTS:.4f}")

    def excess(log_noise: float) -> float:
        return moments_epsilon(math.exp(log_noise), sampling_probability, steps, delta) - epsilon

    found = brentq(excess, math.log(0.2), math.log(LARGEST_NOISE), xtol=1e-9)
    return math.exp(found) * (1 + 1e-8)
