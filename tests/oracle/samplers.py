"""The coins of the samplers, enumerated: the law of the sum that a step sees, in exact fractions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from math import comb

from .noise import Law

Records = Sequence[Law]
"""What each record contributes when it takes part: a vector, or one of several with probabilities."""
Batches = Iterator[tuple[tuple[int, ...], Fraction]]
"""Sets of records that take part, with their probabilities."""


def everything(n: int) -> Batches:
    yield tuple(range(n)), Fraction(1)


def poisson(n: int, probability: float) -> Batches:
    q = Fraction(probability)
    for size in range(n + 1):
        for batch in combinations(range(n), size):
            yield batch, q**size * (1 - q) ** (n - size)


def truncated(n: int, probability: float, most: int) -> Batches:
    """A larger Poisson sample keeps ``most`` of its records, chosen uniformly."""
    q = Fraction(probability)
    larger = sum((comb(n, m) * q**m * (1 - q) ** (n - m) for m in range(most, n + 1)), Fraction(0))
    for size in range(min(n, most) + 1):
        for batch in combinations(range(n), size):
            yield batch, larger / comb(n, most) if size == most else q**size * (1 - q) ** (n - size)


def fixed_size(n: int, size: int) -> Batches:
    for batch in combinations(range(n), size):
        yield batch, Fraction(1, comb(n, size))


def added(one: Law, other: Law) -> Law:
    """The law of the sum of two independent vectors."""
    found: dict[tuple[float, ...], Fraction] = defaultdict(Fraction)
    for a, p in one.items():
        for b, q in other.items():
            found[tuple(x + y for x, y in zip(a, b, strict=True))] += p * q
    return found


def mixed(parts: Sequence[tuple[Fraction, Law]]) -> Law:
    found: dict[tuple[float, ...], Fraction] = defaultdict(Fraction)
    for weight, law in parts:
        for vector, probability in law.items():
            found[vector] += weight * probability
    return {vector: probability for vector, probability in found.items() if probability}


def summed(records: Records, dimensions: int) -> Law:
    total: Law = {(0.0,) * dimensions: Fraction(1)}
    for record in records:
        total = added(total, record)
    return total


def of_batches(records: Records, batches: Batches, dimensions: int) -> Law:
    """The law of the sum over a batch."""
    known: dict[tuple[int, ...], Law] = {}
    parts = []
    for batch, probability in batches:
        key = tuple(sorted(id(records[i]) for i in batch))  # the same contributions have the same sum
        if key not in known:
            known[key] = summed([records[i] for i in batch], dimensions)
        parts.append((probability, known[key]))
    return mixed(parts)


def with_replacement(records: Records, draws: int, dimensions: int) -> Law:
    one = mixed([(Fraction(1, len(records)), record) for record in records])
    return summed([one] * draws, dimensions)


def allocated(records: Records, steps: int, selected: int, dimensions: int) -> Law:
    """The law of the sums of all steps, one after the other in one vector."""
    total: Law = {(0.0,) * (steps * dimensions): Fraction(1)}
    choices = list(combinations(range(steps), selected))
    nothing: Law = {(0.0,) * dimensions: Fraction(1)}
    for record in records:
        parts = []
        for chosen in choices:
            law: Law = {(): Fraction(1)}
            for step in range(steps):
                here = record if step in chosen else nothing
                law = {a + b: p * q for a, p in law.items() for b, q in here.items()}
            parts.append((Fraction(1, len(choices)), law))
        total = added(total, mixed(parts))
    return total
