"""What is released, before noise: the integers behind the gate, with one record more and without it.

The library has no hook for this. Here the gate's methods are replaced while a test runs: a first run's integers and
releases are kept, and a second one gets the same releases, so that its integers differ by the record alone and not by
what was learned from it.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import numpy as np

from tightdp.release_gate.minimum_query import SLACK as TOLERANCE
from tightdp.train import Gate

SLACK = 1 + 1e-12
"""Of sums in floating point that compare norms here."""


@dataclass(frozen=True)
class Seen:
    """One release: what is declared of it, the integers behind it, and what came out."""

    declared: tuple[Any, ...]
    integers: Any
    moved: Any
    """From the integers of a neighbour to how far they lie apart, in parts of what is declared: at most 1."""
    released: Any


@dataclass
class Run:
    """The releases of a run, in order."""

    seen: list[Seen] = field(default_factory=list)
    largest: float = 0.0
    """How far the integers of a run beside this one were moved at most."""
    beside: int = 0


@contextmanager
def watched(earlier: Run | None = None):
    """The releases of whatever runs inside, as a ``Run``; beside an earlier one, whose releases take the place of
    these, after a comparison of the integers."""
    run = Run()
    gaussian, least, frequent, perturbed = (
        Gate.release_gaussian,
        Gate.release_least_index,
        Gate.release_frequent_values,
        Gate.release_perturbed_minimum,
    )

    def of(gate, declared, moved, held, release):
        found = Seen(declared, held[0], moved, release.value)
        run.seen.append(found)
        if earlier is None:
            return release
        before = earlier.seen[len(run.seen) - 1]
        assert before.declared == declared, "what is declared depends on a record"
        run.largest = max(run.largest, before.moved(found.integers))
        return replace(release, value=before.released)

    def keeping(function, held):
        def evaluate(*given):
            held.append(function(*given))
            return held[-1].copy()

        return evaluate

    def watched_gaussian(gate, query, noise_multiplier):
        held: list[Any] = []
        release = gaussian(gate, replace(query, evaluate=keeping(query.evaluate, held)), noise_multiplier)
        scale = 1.0 if query.scale is None else query.scale

        def moved(others):
            steps = (others - held[0]).astype(np.float64)  # modulo 2^64, as the sums
            return float(np.linalg.norm(steps * query.grid / scale)) / (query.sensitivity * SLACK)

        return of(gate, _declared(query, noise_multiplier), moved, held, release)

    def watched_least(gate, query, mechanism, *, offset=0.0):
        held: list[Any] = []
        release = least(gate, replace(query, evaluate=keeping(query.evaluate, held)), mechanism, offset=offset)

        def moved(others):
            steps = (others - held[0]).astype(np.float64) * query.grid
            both_ways = steps.min() < 0 < steps.max()
            return np.inf if both_ways else float(np.abs(steps).max()) / (query.sensitivity * SLACK)

        return of(gate, (*_declared(query, 0.0), mechanism), moved, held, release)

    def watched_frequent(gate, columns, counts, spent):
        held: list[Any] = []

        def evaluate():
            held.append([Counter(each) for each in counts()])
            return held[-1]

        release = frequent(gate, columns, evaluate, spent)

        def moved(others):
            return max(
                sum(abs(one[key] - other[key]) for key in one.keys() | other.keys())
                for one, other in zip(held[0], others, strict=True)
            )

        return of(gate, (columns, spent), moved, held, release)

    def watched_perturbed(gate, query, noise_multiplier, cover, charge):
        held: list[Any] = []
        made = replace(query, evaluate=keeping(query.evaluate, held))
        release = perturbed(gate, made, noise_multiplier, cover, charge)
        side = np.sqrt(query.shape[0])
        distance = (query.cover - side * query.grid) / (3 * TOLERANCE) + query.cover  # of two minima, perturbation.md

        def moved(others):
            return float(np.linalg.norm(others - held[0])) * query.grid / (distance + side * query.grid)

        return of(gate, (query.shape, query.grid, query.cover, charge), moved, held, release)

    methods = {
        "release_gaussian": watched_gaussian,
        "release_least_index": watched_least,
        "release_frequent_values": watched_frequent,
        "release_perturbed_minimum": watched_perturbed,
    }
    with mock.patch.multiple(Gate, **methods):
        yield run


def _declared(query, noise_multiplier):
    scale = None if query.scale is None else query.scale.tobytes()
    return query.shape, query.sensitivity, query.sampling_probability, query.grid, scale, query.scores, noise_multiplier
