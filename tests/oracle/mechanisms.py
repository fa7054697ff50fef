"""What each public mechanism's docstring promises, as laws on neighbouring data sets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

import tightdp as dp

from . import classes, repetitions, samplers
from .classes import Class
from .data_sets import neighbours
from .noise import Both, Continuous, Integers, Law, Noise, Table, laws
from .pairs import Pair

EPSILONS = np.array([-2.0, -0.7, 0.0, 0.4, 1.0, 1.8, 3.0, 5.0, 8.0])
"""Where a single step's curve is exact: cells end at outputs of these losses."""


class Candidate(NamedTuple):
    """Two data sets and a mechanism: laws whose curves are at most the true ones, and at least (if known)."""

    below: Pair
    above: Pair | None


class Refused(Exception):
    """The docstring says that nothing is claimed here."""


@dataclass(frozen=True)
class Additive:
    """A member whose output is a sum and noise: record v contributes ``contribution(v)``. ``alone`` members know one
    record only."""

    noise: Noise
    contribution: Callable[[int], Law]
    dimensions: int = 1
    label: str = ""
    alone: bool = False


def scaled(unit: float) -> Callable[[int], Law]:
    return lambda v: {(unit * v,): Fraction(1)}


def along(vector: Sequence[float]) -> Callable[[int], Law]:
    return lambda v: {tuple(v * x for x in vector): Fraction(1)}


def members(mechanism: dp.Mechanism) -> list[Additive]:
    """What a mechanism that runs on a batch may be."""
    match mechanism:
        case dp.Gaussian(sigma):
            return [Additive(Continuous("normal", sigma), scaled(1.0))]
        case dp.Laplace(scale):
            return [Additive(Continuous("laplace", scale), scaled(1.0))]
        case dp.DiscreteGaussian(sigma, sensitivity):
            return [Additive(Integers("normal", sigma), scaled(sensitivity))]
        case dp.DiscreteLaplace(scale, sensitivity):
            return [Additive(Integers("laplace", scale), scaled(sensitivity))]
        case dp.DiscreteGaussianVector(sigma, sensitivity, dimensions):
            noise = Integers("normal", sigma)
            return [Additive(noise, along(v), dimensions) for v in integer_vectors(sensitivity, dimensions)]
        case dp.MixtureOfGaussians(sigma, norms, shares):
            total = sum(Fraction(p) for p in shares)

            def drawn(v: int) -> Law:
                return (
                    {(v * c,): Fraction(p) / total for c, p in zip(norms, shares, strict=True)}
                    if v
                    else {(0.0,): Fraction(1)}
                )

            return [Additive(Continuous("normal", sigma), drawn)]
        case dp.PureDP(e):
            return pure_members(e)
        case dp.ApproximateDP(e, d):
            return approximate_members(e, d)
        case dp.BoundedRange(eta):
            return bounded_range_members(eta)
        case dp.ZCDP(rho, xi):
            return concentrated_members(rho, xi)
        case dp.PrivacyLoss():
            pair = given(mechanism)
            return [Additive(Table({0: tuple(pair.q), 1: tuple(pair.p)}), scaled(1), label="given", alone=True)]
    raise TypeError(f"{mechanism!r} is unknown to the oracle")


def integer_vectors(norm: float, dimensions: int) -> list[tuple[int, ...]]:
    """The longest ones in some directions."""
    most = math.floor(norm)
    found = [
        v
        for v in itertools.combinations_with_replacement(range(most, -1, -1), dimensions)
        if 0 < sum(x * x for x in v) <= norm * norm
    ]
    longer = [v for v in found if not any(u != v and all(a >= b for a, b in zip(u, v, strict=True)) for u in found)]
    return longer[:4]


def pure_members(e: float) -> list[Additive]:
    if e == 0:
        return [Additive(Table({0: (1.0,)}), scaled(1))]
    E, s = math.exp(e), 1 / (1 + math.exp(e))
    three = {-1: (s / E, (1 - 2 * s) / E, s * E), 0: (s, 1 - 2 * s, s), 1: (s * E, (1 - 2 * s) / E, s / E)}
    return [
        Additive(Table({0: (s, 1 - s), 1: (1 - s, s)}), scaled(1), label="one bit"),
        Additive(Table(three), scaled(1), label="three answers"),
        *([Additive(Integers("laplace", 1 / e), scaled(1), label="geometric")] if e > 0.05 else []),
    ]


def approximate_members(e: float, d: float) -> list[Additive]:
    """With probability d the number is revealed (cut to a range)."""
    found = []
    for member in pure_members(e):
        if isinstance(member.noise, Table):
            low, high = min(member.noise.rows), max(member.noise.rows)
            rows = {}
            for v in range(min(low, -2), max(high, 2) + 1):
                shown = [d * (u == v) for u in range(min(low, -2), max(high, 2) + 1)]
                inner = member.noise.rows[min(max(v, low), high)]
                rows[v] = (*shown, *((1 - d) * mass for mass in inner))
            found.append(Additive(Table(rows), scaled(1), label=f"{member.label}, or all"))
    return found


def bounded_range_members(eta: float) -> list[Additive]:
    def exponential(scores: Sequence[float], shifts: Sequence[float]) -> Additive:
        rows = {}
        for v in range(-6, 7):
            weights = [math.exp(eta * v * s + t) for s, t in zip(scores, shifts, strict=True)]
            rows[v] = tuple(w / math.fsum(weights) for w in weights)
        return Additive(Table(rows), scaled(1), label="exponential")

    found = [exponential((0, 1), (0, t * eta)) for t in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0)]
    return [*found, exponential((0, 0.5, 1), (0, 0, 0)), *pure_members(eta / 2)]


def concentrated_members(rho: float, xi: float) -> list[Additive]:
    if rho == 0:
        return pure_members(xi)
    sigma = 1 / math.sqrt(2 * rho) * (1 + 1e-12)
    noises: list[Noise] = [Integers("normal", sigma), Continuous("normal", sigma)]
    pure = [m for m in pure_members(math.sqrt(2 * rho) * (1 - 1e-12)) if m.label != "geometric"]
    ranged = bounded_range_members(math.sqrt(8 * rho) * (1 - 1e-12))[:7]
    if xi == 0:
        return [*(Additive(noise, scaled(1.0)) for noise in noises), *pure, *ranged]
    return [
        Additive(Both(noise, member.noise), scaled(1.0), label=f"concentrated and {member.label}")
        for noise in noises
        for member in pure_members(xi)
    ]


KNOWN: dict[dp.PrivacyLoss, Pair] = {}
"""The pairs that drawn tables stand for, where they say less than all of it."""


def given(mechanism: dp.PrivacyLoss) -> Pair:
    """The pair of a user-defined loss; where a better lower one is given, that."""
    if mechanism in KNOWN:
        return KNOWN[mechanism]
    losses, masses, infinity = np.array(mechanism.losses), np.array(mechanism.probabilities), mechanism.infinity
    hidden = mechanism.minus_infinity
    if mechanism.optimistic is not None:
        losses, masses, infinity = (np.array(x) for x in mechanism.optimistic)
        hidden = max(0.0, 1 - float(np.sum(masses * np.exp(-losses))))
    return Pair(np.append(masses, [infinity, 0.0]), np.append(masses * np.exp(-losses), [0.0, hidden]), label="given")


def class_of(mechanism: dp.Mechanism) -> list[Class]:
    match mechanism:
        case dp.PureDP(e):
            return [classes.pure(e)]
        case dp.ApproximateDP(e, d):
            return [classes.approximate(e, d)]
        case dp.BoundedRange(eta):
            return [classes.bounded_range(eta, t * eta) for t in (0.25, 0.5, 0.75)]
        case dp.PrivacyLoss():
            return [classes.dominated(given(mechanism), mechanism.relation in ("replace",))]
    return []


class Sampler(NamedTuple):
    """The mechanism that runs on the sample, the law of the sum, the batches (where steps are one), and how many other
    records there may be."""

    inner: dp.Mechanism
    total: Callable[[samplers.Records, int], Law]
    batches: Callable[[int], samplers.Batches] | None
    records: int | None
    sums: int = 1


def sampler(mechanism: dp.Mechanism) -> Sampler:
    def of(inner: dp.Mechanism, batches: Callable[[int], samplers.Batches], records: int | None) -> Sampler:
        return Sampler(inner, lambda r, d: samplers.of_batches(r, batches(len(r)), d), batches, records)

    match mechanism:
        case dp.PoissonSampled(inner, q):
            return of(inner, lambda n: samplers.poisson(n, q), None)
        case dp.TruncatedPoissonSampled(inner, q, most, records):
            return of(inner, lambda n: samplers.truncated(n, q, most), records)
        case dp.FixedSizeSampled(inner, size, records):
            return of(inner, lambda n: samplers.fixed_size(n, size), records)
        case dp.SampledWithReplacement(inner, draws, records):
            return Sampler(inner, lambda r, d: samplers.with_replacement(r, draws, d), None, records)
        case dp.RandomAllocation(inner, steps, selected):
            return Sampler(inner, lambda r, d: samplers.allocated(r, steps, selected, d), None, None, steps)
    return of(mechanism, samplers.everything, None)


@lru_cache(maxsize=4096)
def candidates(mechanism: dp.Mechanism, role: str, group: int) -> tuple[Candidate, ...]:
    """Data sets and members for an ordered pair of neighbours that differ by ``group`` records."""
    match mechanism:
        case dp.Group(inner, size):
            return run_candidates(inner, role, group * size)
        case dp.RepeatAndSelect(inner, mean, shape):
            runs = run_candidates(inner, role, group)
            return tuple(Candidate(p, None) for run in runs for p in repetitions.best(run.below, mean, shape))
        case dp.RandomizedResponse(noise, buckets):
            return (randomized_response(noise, buckets, group),)
        case dp.TreeAggregation(sigma, steps):
            return tuple(tree(sigma, steps, role, group))
        case dp.PrivacyLoss() if group == 1:
            return tuple(_given(mechanism, role))
    return tuple(_sampled(mechanism, role, group))


def run_candidates(run: dp.Mechanism | dp.Composition, role: str, group: int) -> tuple[Candidate, ...]:
    """The same of a whole run, each step with the member and data sets that do best there."""
    from .truth import composed

    if isinstance(run, dp.Mechanism):
        return candidates(run, role, group)
    return composed(tuple(run.parts), role, group)


def _given(mechanism: dp.PrivacyLoss, role: str) -> Iterator[Candidate]:
    pair = given(mechanism)
    orders = {"remove": [pair], "emptied": [pair], "add": [pair.reversed], "filled": [pair.reversed]}
    for one in orders.get(role, [pair, pair.reversed]):
        yield Candidate(one, one if mechanism.optimistic is None or mechanism in KNOWN else None)


def randomized_response(noise: float, buckets: int, group: int) -> Candidate:
    wrong = noise / buckets
    right = 1 - noise + wrong
    rest = [(buckets - 2) * wrong] if buckets > 2 else []
    one = Pair(np.array([right, wrong, *rest]), np.array([wrong, right, *rest]), label="answers")
    whole = one
    for _ in range(group - 1):
        whole = Pair(np.outer(whole.p, one.p).ravel(), np.outer(whole.q, one.q).ravel(), label="answers")
    return Candidate(whole, whole if group == 1 else None)


def tree(sigma: float, steps: int, role: str, group: int) -> Iterator[Candidate]:
    """Every node is the sum of a dyadic range of steps; a record contributes +1, 0 or -1 to one step."""
    nodes = [(k << h, (k + 1) << h) for h in range(steps.bit_length()) for k in range(steps >> h)]
    paths = [np.array([low <= step < high for low, high in nodes], dtype=float) for step in range(steps)]
    norms = set()
    for here in paths:
        for there in paths:
            for sign in (-1, 0, 1):
                moved = here if role in ("remove", "add", "emptied", "filled") else here - sign * there
                norms.add(round(float(moved @ moved), 9))
    for square in sorted(norms)[-3:]:
        p, q = {(group * math.sqrt(square),): Fraction(1)}, {(0.0,): Fraction(1)}
        below, above = laws(Continuous("normal", sigma), p, q, EPSILONS)
        yield Candidate(below, above)


def _sampled(mechanism: dp.Mechanism, role: str, group: int) -> Iterator[Candidate]:
    sample = sampler(mechanism)
    fixed = sample.records is not None
    group = min(group, sample.records) if fixed else group
    sizes = [sample.records - group] if fixed else [0]
    for member in members(sample.inner):
        if member.alone and (group > 1 or role == "replace"):
            continue
        memory: dict[tuple[tuple[int, ...], ...], None] = {}
        for others, here, there in neighbours(role, group, sizes, (0,) if member.alone else (-1, 0, 1)):
            if member.alone and fixed:
                continue
            record: Mapping[int, Law] = {v: member.contribution(v) for v in (-1, 0, 1)}
            key = (others, here, there)
            if key in memory:
                continue
            memory[key] = None
            p = sample.total([record[v] for v in (*others, *here)], member.dimensions)
            q = sample.total([record[v] for v in (*others, *there)], member.dimensions)
            below, above = laws(member.noise, p, q, EPSILONS)
            label = f"{member.label} {others} {here} {there}".strip()
            yield Candidate(Pair(below.p, below.q, below.error, label), above)
    if sample.batches is None:
        return
    size = sizes[0] if fixed else (1 if isinstance(mechanism, dp.PoissonSampled) else 0)
    for kind in class_of(sample.inner):
        here = 0 if role in ("add",) else group
        there = 0 if role in ("remove",) else group
        mine, theirs = 1 if role != "filled" else None, 2 if role != "emptied" else None  # None contributes nothing
        labels_p, labels_q = [0] * size + [mine] * here, [0] * size + [theirs] * there
        p = classes.counted(sample.batches(len(labels_p)), labels_p)
        q = classes.counted(sample.batches(len(labels_q)), labels_q)
        for at in ([-0.7], [0.0], [0.4], [1.0], [1.8], [3.0], [0.0, 1.0], [0.4, 1.8]):
            found = classes.member(kind, p, q, at)
            yield Candidate(Pair(found.p, found.q, found.error, f"member for {at}"), None)
