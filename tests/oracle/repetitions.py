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
    eta = mp.mpf(shape)

    def expectation(log_gamma: mp.mpf) -> mp.mpf:
        g = mp.exp(log_gamma)
        return (1 / g - 1) / -log_gamma if eta == 0 else eta * (1 - g) / (g * (1 - g**eta))

    if mean == 1:
        return lambda x: x
    low, high = mp.mpf(-200), mp.mpf("-1e-18")
    for _ in range(160):  # the expectation falls as gamma grows
        middle = (low + high) / 2
        low, high = (middle, high) if expectation(middle) > m else (low, middle)
    g = mp.exp(high)
    if eta == 0:
        return lambda x: mp.log(1 - (1 - g) * x) / mp.log(g)
    return lambda x: ((1 - (1 - g) * x) ** -eta - 1) / (g**-eta - 1)


def best(pair: Pair, mean: float, shape: float | str) -> Iterator[Pair]:
    """The laws of the best outcome, for three orders of preference."""
    pair = merged(pair, FEW)
    with mp.workdps(40):
        function = generating_function(mean, shape)
        for preference in (pair.losses, -pair.losses, np.abs(pair.losses)):
            order = np.argsort(preference, kind="stable")
            found = [_selected([mp.mpf(float(x)) for x in mass[order]], function) for mass in (pair.p, pair.q)]
            yield Pair(found[0], found[1], mean * pair.error, f"best of {pair.label}")


def _selected(masses: list[mp.mpf], function: Callable[[mp.mpf], mp.mpf]) -> np.ndarray:
    total, below, found = mp.fsum(masses), mp.mpf(0), [function(mp.mpf(0))]
    for mass in masses:
        above = below + mass / total
        found.append(function(above) - function(below))
        below = above
    return np.array([float(x) for x in found])
