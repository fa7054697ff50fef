"""The best of a random number of runs, outcome by outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import mpmath as mp
import numpy as np

from .pairs import Pair, merged

FEW = 120
"""Outcomes of one run that are kept apart: putting others together is post-processing of the run."""


def generating_function(mean: float, shape: float | str) -> Callable[[mp.mpf], mp.mpf]:
    """E x^k of the number k of runs."""
    m = mp.mpf(mean)
    if shape == "poisson":
        return lambda x: mp.exp(m * (x - 1))
    if mean == 1:
        return lambda x: x
    eta, g = mp.mpf(shape), mp.exp(log_gamma(mean, shape))
    if eta == 0:
        return lambda x: mp.log(1 - (1 - g) * x) / mp.log(g)
    return lambda x: ((1 - (1 - g) * x) ** -eta - 1) / (g**-eta - 1)


def log_gamma(mean: float, shape: float) -> mp.mpf:
    """The parameter of a truncated negative binomial number with this mean, which falls as gamma grows."""
    m, eta = mp.mpf(mean), mp.mpf(shape)

    def expectation(log_gamma: mp.mpf) -> mp.mpf:
        g = mp.exp(log_gamma)
        return (1 / g - 1) / -log_gamma if eta == 0 else eta * (1 - g) / (g * (1 - g**eta))

    low, high = mp.mpf(-200), mp.mpf("-1e-18")
    for _ in range(160):
        middle = (low + high) / 2
        low, high = (middle, high) if expectation(middle) > m else (low, middle)
    return high


def best(pair: Pair, mean: float, shape: float | str) -> Iterator[Pair]:
    """The laws of the best outcome, for some orders of preference."""
    pair = merged(pair, FEW)
    with mp.workdps(40):
        function = generating_function(mean, shape)
        for one, order in _orders(pair, mean):
            found = [_selected([mp.mpf(float(x)) for x in mass[order]], function) for mass in (one.p, one.q)]
            yield Pair(found[0], found[1], mean * pair.error, f"best of {pair.label}")


def _orders(pair: Pair, mean: float) -> Iterator[tuple[Pair, np.ndarray]]:
    """Orders of the outcomes by their losses, and one where few outcomes, whose loss is least, are better than some
    whose loss is largest: there the number of runs shows most. Splitting an outcome by a coin is post-processing."""
    for preference in (pair.losses, -pair.losses, np.abs(pair.losses)):
        yield pair, np.argsort(preference, kind="stable")
    both = (pair.p > 0) & (pair.q > 0)
    if mean < 2 or not both.any():
        return
    high = int(np.argmax(np.where(both, pair.losses, -np.inf)))
    low = int(np.argmin(np.where(both, pair.losses, np.inf)))
    for times in (1.0, 10.0, 100.0):
        share = min(times / (mean * max(pair.p[low], pair.q[low])), 0.5)
        few, rare = np.zeros(len(pair.p)), np.zeros(len(pair.p))
        few[low], rare[high] = share, share / 10
        split = [
            np.concatenate((m * (1 - few - rare), [m[high] * rare[high], m[low] * few[low]])) for m in (pair.p, pair.q)
        ]
        yield Pair(*split, pair.error, pair.label), np.arange(len(pair.p) + 2)


def _selected(masses: list[mp.mpf], function: Callable[[mp.mpf], mp.mpf]) -> np.ndarray:
    total, below, found = mp.fsum(masses), mp.mpf(0), [function(mp.mpf(0))]
    for mass in masses:
        above = below + mass / total
        found.append(function(above) - function(below))
        below = above
    return np.array([float(x) for x in found])
