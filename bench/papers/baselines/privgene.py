"""PrivGene (Zhang et al. 2013): linear models by a genetic algorithm whose parents are chosen privately.

Each generation has 200 candidates, of which 10 are chosen, one after another, by the exponential mechanism on sums of
clipped losses. Pairs of them swap their ends after a random place, and one coordinate of each child moves by a step
that shrinks. The paper pays for selections by adding their epsilons; here they are composed exactly, which favours it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import tightdp as dp

CANDIDATES, PARENTS, GENERATIONS = 200, 10, 8
"""The paper's numbers. It has more than 8 generations only where n epsilon exceeds 64,000."""
LARGEST_LOSS = 3.0
REACH = 2.0
"""Largest absolute coordinate at the start, and of the first change of a child."""
SHRINKAGE = 0.7
"""Largest change of a child over that of the generation before."""


def selection_epsilon(epsilon: float, delta: float) -> float:
    """Returns the range of each selection's loss, so that all of them are (epsilon, delta)-DP."""
    selections = (GENERATIONS - 1) * PARENTS + 1
    return float(dp.calibrate(lambda eta: dp.BoundedRange(eta) * selections, epsilon=epsilon, delta=delta))


def fit(
    losses: Callable[[np.ndarray], np.ndarray], dimension: int, epsilon: float, delta: float, seed: int
) -> np.ndarray:
    """Returns weights of small loss. ``losses`` maps (candidates, dimension) to sums of losses clipped to
    [0, LARGEST_LOSS]."""
    rng, eta = np.random.default_rng(seed), selection_epsilon(epsilon, delta)

    def choose(sums: np.ndarray) -> int:
        # One record moves all sums one way, by LARGEST_LOSS at most, so that the range of the losses is eta.
        return int(np.argmax(rng.gumbel(size=len(sums)) - eta * sums / LARGEST_LOSS))

    population = rng.uniform(-REACH, REACH, (CANDIDATES, dimension))
    step = REACH
    for _ in range(GENERATIONS - 1):
        sums = losses(population)
        parents = population[[choose(sums) for _ in range(PARENTS)]]
        population = breed(parents, step, rng)
        step *= SHRINKAGE
    return population[choose(losses(population))]


def breed(parents: np.ndarray, step: float, rng: np.random.Generator) -> np.ndarray:
    """Returns the children of random pairs: their ends are swapped, and one coordinate of each is moved."""
    children = np.empty((CANDIDATES, parents.shape[1]))
    for pair in range(0, CANDIDATES, 2):
        one, other = parents[rng.integers(PARENTS, size=2)]
        cut = rng.integers(1, parents.shape[1])
        children[pair] = np.concatenate([one[:cut], other[cut:]])
        children[pair + 1] = np.concatenate([other[:cut], one[cut:]])
    places = rng.integers(parents.shape[1], size=CANDIDATES)
    children[np.arange(CANDIDATES), places] += rng.uniform(-step, step, CANDIDATES)
    return children
