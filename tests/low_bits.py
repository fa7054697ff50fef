"""Mironov's attack (CCS 2012) on a release: whether its low bits tell two inputs apart."""

import math

import numpy as np
from scipy import stats

import tightdp as dp

TRIALS = 12_000
CHANCE = 1e-9
"""Of one comparison being wrong about a sound release."""
BOUND, MULTIPLIER = 0.5, 2.0
EMPTY, CANARY = np.zeros((1, 1)), np.array([[0.0], [0.5]])


def releases(release, rows):
    rng = dp.Philox(len(rows))
    return np.array([release(rows, rng) for _ in range(TRIALS)], np.float64)


def proportion(hits, side):
    """Clopper and Pearson's bound."""
    n = len(hits)
    k = int(hits.sum())
    if side == "lower":
        return 0.0 if k == 0 else stats.beta.ppf(CHANCE, k, n - k + 1)
    return 1.0 if k == n else stats.beta.ppf(1 - CHANCE, k + 1, n - k)


def betrayed(a, b, claim):
    """Whether some "is a multiple of 2^-k, and near 0 or not" tells the two apart better than the claim allows."""
    for k in range(-4, 70):
        for near in (0.125, math.inf):
            for x, y in ((a, b), (b, a)):
                for fine in (False, True):
                    p, q = (
                        proportion(((v * 2.0**k == np.round(v * 2.0**k)) != fine) & (np.abs(v) < near), side)
                        for v, side in ((x, "lower"), (y, "upper"))
                    )
                    if any(p > math.exp(eps) * q + claim.delta(eps).upper for eps in (0.5, 1.0, 2.0)):
                        return True
    return False
