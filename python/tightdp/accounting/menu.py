"""Adaptive choice from a finite menu, by value iteration (docs/theory/filters.md section 8).

In each of a fixed number of rounds one of the levels is released, chosen in the light of all outputs so far. The worst
adversary's delta is V_0 with V_rounds(eps) = (1 - e^eps)_+ and V_r(eps) = max over levels of E[V_{r+1}(eps - Y_level)].
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .. import _check, _core
from ..mechanisms import Mechanism
from . import neighbors as relations
from . import queries
from .bound import Bound
from .composable import Composable
from .composition import Composition
from .engines import closed_form, renyi
from .engines.base import Direction, Parts
from .lattice import Array, Lattice, compose, pessimistic
from .laws.base import Law
from .options import Neighbors, options
from .renyi import conversion

_TAIL = 1e-13
"""Probability that all rounds together leave the mesh, charged to delta."""
_POINTS = 1 << 15


def worst_case(
    levels: Sequence[Composable],
    rounds: int,
    epsilon: float,
    *,
    neighbors: Neighbors = "add_or_remove",
    points: int = _POINTS,
) -> Bound:
    """Bounds on delta(``epsilon``) of ``rounds`` adaptive choices among ``levels``, each a mechanism or a composition.

    The upper bound is that of the worst adversary on a mesh of ``points`` privacy losses (a power of two); its excess
    is of second order in the mesh, its resolution 1e-10 or so. The lower bound is that of the worst single level
    chosen every time. Serves mechanisms whose single step has a closed form. Takes seconds: a closed form a point,
    mechanism and direction, then a Fourier transform a round and level.

    >>> from tightdp import Gaussian, PoissonSampled
    >>> step = PoissonSampled(Gaussian(2.0), 0.05)
    >>> worst_case([step * 20], 3, 1.0, points=2048).upper < 1.02 * (step * 60).delta(1.0).upper
    True
    """
    menu = [_level(level) for level in levels]
    if not menu:
        raise ValueError("levels must be at least one mechanism or composition")
    rounds = _check.count("rounds", rounds)
    epsilon = _check.nonnegative("epsilon", epsilon)
    points = _check.count("points", points, least=64, most=1 << 22)
    if points & (points - 1):
        raise ValueError(f"points must be a power of two, got {points!r}")
    asked = options(neighbors)
    uppers = []
    for direction in asked.directions:
        pairs = [_translated(level, neighbors) for level in menu]
        uppers.append(_one_direction(pairs, rounds, epsilon, direction if neighbors != "replace" else "remove", points))
    lower = max(queries.delta(level * rounds, epsilon, asked).lower for level in menu)
    upper = max(max(uppers), lower)
    return Bound(lower, upper, "value iteration", {"adaptivity and mesh": upper - lower})


def _level(level: Composable) -> Composition:
    if not isinstance(level, Composable):
        raise TypeError(f"levels must be mechanisms or compositions, got {level!r}")
    return level._composition()


def _translated(level: Composition, neighbors: Neighbors) -> Parts:
    reason = relations.refuse(level.parts, neighbors)
    if reason:
        raise ValueError(reason)
    parts = level.parts if neighbors != "replace" else relations.translate(level.parts)
    if parts is None:
        raise ValueError(f"neighbors must be 'add_or_remove', 'add' or 'remove' for {level!r}")
    return parts


def _law(mechanism: Mechanism, direction: Direction) -> Law:
    law = closed_form.law(((mechanism, 1),), direction)
    if law is None:
        raise ValueError(f"levels must be of mechanisms whose single step has a closed form, got {mechanism!r}")
    return law


def _one_direction(menu: list[Parts], rounds: int, epsilon: float, direction: Direction, points: int) -> float:
    reach = max(_reach(parts, rounds) for parts in menu) + epsilon + 1e-6
    step = 2 * reach / points
    losses = step * np.arange(-points // 2, points // 2, dtype=np.float64)
    steps = {mechanism: pessimistic(_law(mechanism, direction), losses) for parts in menu for mechanism, _ in parts}
    laws = [compose([(steps[mechanism], count) for mechanism, count in parts], losses) for parts in menu if parts]
    value = np.maximum(-np.expm1(epsilon + losses), 0.0) * (1 + 1e-15)
    for _ in range(rounds if laws else 0):
        value = np.minimum(np.max([_expectation(value, law) for law in laws], axis=0), 1.0)
    return float(value[points // 2])


def _reach(parts: Parts, rounds: int) -> float:
    """A loss that ``rounds`` times ``parts`` exceed with probability at most about ``_TAIL``, in either direction."""
    kept, _ = renyi.split(parts)
    return conversion.minimum(lambda c: (rounds * renyi.total(kept, c) - math.log(_TAIL)) / c)


def _expectation(value: Array, law: Lattice) -> Array:
    """sum_i mass_i V(eps_j - y_i) + beyond, rounded up; V is at most 1 below the mesh, and its last value above it."""
    n = len(value)
    padded = np.concatenate((np.ones(n // 2), value, np.full(n - n // 2, value[-1])))
    kernel = np.concatenate((law.masses, np.zeros(n)))
    size = 2 * n
    spectrum = _core.rfft_multiply(_core.rfft_forward(padded), _core.rfft_forward(kernel))
    # Output k of the circular convolution is sum_i mass_i padded[k - i], without wrapping for k >= n - 1; the mass of
    # loss (i - n/2) h takes eps_j, which is padded[n/2 + j], from padded[n + j - i].
    found = _core.rfft_inverse(spectrum)[n : 2 * n]
    kappa = _core.rfft_rounding_bound(size) + 8 * 2.0**-53
    total = float(law.masses.sum())
    error = 4 * kappa * max(total, 1.0) * math.sqrt(float((padded * padded).sum()))
    result: Array = np.maximum(found, 0.0) + (law.beyond + error)
    return result
