"""Draws runs of every public mechanism, sampler, group, repetition and relation, and says what was drawn."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

import tightdp as dp
from tightdp.options import NEIGHBORS

from .check import Case
from .truth import Parts

Rng = np.random.Generator
MOST = 4
"""Records of a group."""


def public() -> list[type[dp.Mechanism]]:
    """Every mechanism that a user can name."""
    named = (getattr(dp, name) for name in dp.__all__ if name != "Mechanism")
    return [x for x in (*named, dp.PrivacyLoss) if isinstance(x, type) and issubclass(x, dp.Mechanism)]


def scale(rng: Rng, low: float = 0.15, high: float = 4.0) -> float:
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


def share(rng: Rng) -> float:
    return float(rng.choice([rng.uniform(0.02, 0.98), 10.0 ** -rng.uniform(1, 7), 0.5]))


def losses(rng: Rng, relations: tuple[str, ...] = ("add_or_remove", "replace", "any")) -> dp.PrivacyLoss:
    count = int(rng.integers(2, 5))
    p, q = rng.dirichlet(np.ones(count)), rng.dirichlet(np.ones(count))
    if rng.random() < 0.3:
        q = np.append(q[:-1], 0.0) / q[:-1].sum()
    if rng.random() < 0.2 and count > 2:
        p = np.append(0.0, p[1:]) / p[1:].sum()
    relation = relations[rng.integers(len(relations))]
    return dp.PrivacyLoss.from_distributions(p, q, relation=relation)


def mixture(rng: Rng) -> dp.MixtureOfGaussians:
    norms = sorted({0.0, 1.0, float(rng.choice([0.5, 2.0, 3.0]))})
    return dp.MixtureOfGaussians(scale(rng), tuple(norms), tuple(rng.dirichlet(np.ones(len(norms))) * 0.97 + 0.01))


PLAIN: dict[type, Callable[[Rng], dp.Mechanism]] = {
    dp.Gaussian: lambda r: dp.Gaussian(scale(r)),
    dp.Laplace: lambda r: dp.Laplace(scale(r)),
    dp.PureDP: lambda r: dp.PureDP(scale(r, 0.1, 4)),
    dp.ApproximateDP: lambda r: dp.ApproximateDP(scale(r, 0.1, 4), scale(r, 1e-4, 0.6)),
    dp.BoundedRange: lambda r: dp.BoundedRange(scale(r, 0.1, 4)),
    dp.ZCDP: lambda r: dp.ZCDP(scale(r, 0.01, 3), float(r.choice([0.0, 0.3]))),
    dp.DiscreteGaussian: lambda r: dp.DiscreteGaussian(scale(r), int(r.integers(1, 4))),
    dp.DiscreteLaplace: lambda r: dp.DiscreteLaplace(scale(r), int(r.integers(1, 4))),
    dp.DiscreteGaussianVector: lambda r: dp.DiscreteGaussianVector(scale(r, 0.3), float(r.uniform(1, 3)), 2),
    dp.MixtureOfGaussians: mixture,
    dp.PrivacyLoss: losses,
}
"""What may run on a sample."""


def truncated(rng: Rng, inner: dp.Mechanism) -> dp.Mechanism:
    n = int(rng.integers(2, 7))
    return dp.TruncatedPoissonSampled(inner, share(rng), int(rng.integers(1, n)), n)


def fixed_size(rng: Rng, inner: dp.Mechanism) -> dp.Mechanism:
    n = int(rng.integers(2, 7))
    return dp.FixedSizeSampled(inner, int(rng.integers(1, n)), n)


def allocation(rng: Rng, inner: dp.Mechanism) -> dp.Mechanism:
    steps = int(rng.integers(2, 4))
    return dp.RandomAllocation(inner, steps, int(rng.integers(1, steps)))


SAMPLED: dict[type, Callable[[Rng, dp.Mechanism], dp.Mechanism]] = {
    dp.PoissonSampled: lambda r, inner: dp.PoissonSampled(inner, share(r)),
    dp.TruncatedPoissonSampled: truncated,
    dp.FixedSizeSampled: fixed_size,
    dp.RandomAllocation: allocation,
}


def replacement(rng: Rng) -> dp.Mechanism:
    n = int(rng.integers(2, 6))
    return dp.SampledWithReplacement(dp.Gaussian(scale(rng)), int(rng.integers(1, 4)), n)


WHOLE: dict[type, Callable[[Rng], dp.Mechanism]] = {
    dp.RandomizedResponse: lambda r: dp.RandomizedResponse(float(r.uniform(0.05, 0.95)), int(r.integers(2, 6))),
    dp.TreeAggregation: lambda r: dp.TreeAggregation(scale(r, 0.5), int(r.integers(1, 9))),
    dp.SampledWithReplacement: replacement,
}


def mechanism(rng: Rng, kind: type | None = None) -> dp.Mechanism:
    """One that is not made of whole runs, of ``kind`` if that is given."""
    if kind in WHOLE:
        return WHOLE[kind](rng)
    if kind in PLAIN:
        return PLAIN[kind](rng)
    if kind is None:
        kind = list(SAMPLED)[rng.integers(len(SAMPLED))] if rng.random() < 0.6 else None
        if kind is None:
            makers = [*PLAIN.values(), *WHOLE.values()]
            return makers[rng.integers(len(makers))](rng)
    inner = [x for x in PLAIN if kind is dp.PoissonSampled or x is not dp.MixtureOfGaussians]
    chosen = inner[rng.integers(len(inner))]
    if chosen is dp.PrivacyLoss:  # a sample leaves a record out, of which a pair for "replace" says nothing
        return SAMPLED[kind](rng, losses(rng, ("add_or_remove", "any")))
    return SAMPLED[kind](rng, PLAIN[chosen](rng))


def run(rng: Rng, kind: type | None = None) -> dp.Mechanism | dp.Composition:
    """One to three mechanisms; with ``kind`` the first, or what it is made of, is of that."""
    derived = kind if kind in (dp.Group, dp.RepeatAndSelect) else None
    first = mechanism(rng, None if derived else kind)
    total: dp.Mechanism | dp.Composition = first
    for _ in range(int(rng.choice([0, 0, 0, 1, 2]))):
        total = total + (first if rng.random() < 0.7 else mechanism(rng))
    if derived is dp.RepeatAndSelect or (derived is None and rng.random() < 0.1):
        shape = [0.0, 1.0, -0.5, 2.5, "poisson"][rng.integers(5)]
        return dp.RepeatAndSelect(total, float(rng.uniform(1.0, 6.0)), shape)
    if derived is dp.Group:
        return dp.Group(total, min(int(rng.integers(2, 4)), records(total)))
    return total


def records(asked: dp.Mechanism | dp.Composition) -> int:
    """The least size of a data set that is public: no group is larger."""
    found = MOST
    for part, _ in asked._composition().parts:
        inside = part.mechanism if isinstance(part, (dp.Group, dp.RepeatAndSelect)) else None
        size = getattr(part, "dataset_size", MOST) if inside is None else records(inside)
        found = min(found, size)
    return found


def draw(rng: Rng, kind: type | None = None, relation: str | None = None) -> Case:
    found = run(rng, kind)
    relation = relation or str(rng.choice(NEIGHBORS))
    group = 1 if kind is dp.Group or rng.random() < 0.5 else min(int(rng.integers(2, 5)), records(found))
    return Case(found, relation, group)


def kinds(parts: Parts) -> Iterable[str]:
    """The classes that a run is made of, samplers with what runs on the sample."""
    for part, _ in parts:
        name = type(part).__name__
        inner = getattr(part, "mechanism", None)
        if isinstance(part, (dp.Group, dp.RepeatAndSelect)):
            yield name
            yield from (f"{name} of {inside}" for inside in kinds(tuple(inner._composition().parts)))
        else:
            yield name if inner is None else f"{name} of {type(inner).__name__}"


class Report:
    """How often each kind was compared, and refused, under each relation and for each size of group."""

    def __init__(self) -> None:
        self.compared: Counter[tuple[str, str, int]] = Counter()
        self.refused: Counter[tuple[str, str, int]] = Counter()

    def add(self, case: Case, refused: bool = False) -> None:
        for kind in set(kinds(case.parts)):
            (self.refused if refused else self.compared)[kind, case.relation, case.group] += 1

    def __str__(self) -> str:
        names = sorted({kind for kind, _, _ in (*self.compared, *self.refused)})
        lines = [f"{'':58}" + "".join(f"{relation:>17}" for relation in NEIGHBORS)]
        for name in names:
            cells = []
            for relation in NEIGHBORS:
                done, no = (
                    sum(n for (kind, r, _), n in table.items() if kind == name and r == relation)
                    for table in (self.compared, self.refused)
                )
                cells.append(f"{done}" + (f" ({no} refused)" if no else ""))
            lines.append(f"{name:58}" + "".join(f"{cell:>17}" for cell in cells))
        groups = Counter({k: sum(n for (_, _, g), n in self.compared.items() if g == k) for k in range(1, 5)})
        return "\n".join([*lines, f"by size of the group: {dict(groups)}"])
