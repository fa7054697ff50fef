"""Report noisy max with Laplace noise, as printed in Lee and Kifer (2018), Algorithm 1."""

from __future__ import annotations

import numpy as np


def laplace_argmax(scores: np.ndarray, sensitivity: float, epsilon: float, rng: np.random.Generator) -> int:
    """Returns the index of the largest score plus Laplace noise: epsilon-DP if one record moves all scores one way."""
    return int(np.argmax(scores + rng.laplace(scale=sensitivity / epsilon, size=scores.shape)))


def exponential_argmax(scores: np.ndarray, sensitivity: float, epsilon: float, rng: np.random.Generator) -> int:
    """Returns the same with exponential noise, which has the same guarantee and chooses as permute-and-flip does."""
    return int(np.argmax(scores + rng.exponential(scale=sensitivity / epsilon, size=scores.shape)))


def gumbel_argmax(scores: np.ndarray, sensitivity: float, epsilon: float, rng: np.random.Generator) -> int:
    """Returns a draw of the exponential mechanism at the same epsilon, with Gumbel noise."""
    return int(np.argmax(scores + rng.gumbel(scale=sensitivity / epsilon, size=scores.shape)))
