"""Draws runs of every public mechanism, sampler, group, repetition and relation, and says what was drawn."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

import tightdp as dp
from tightdp.options import NEIGHBORS

from .check import Case
from .mechanisms import KNOWN
from .pairs import Pair
from .truth import Parts

Rng = np.random.Generator
MOST = 4
"""Records of a group."""
MEAN = 300.0
"""Runs that a selection takes on average, at most."""


def public() -> list[type[dp.Mechanism]]:
    """Every mechanism that a user can name."""
    named = (getattr(dp, name) for name in dp.__all__ if name != "Mechanism")
    return [x for x in (*named, dp.PrivacyLoss) if isinstance(x, type) and issubclass(x, dp.Mechanism)]


def constructors() -> dict[str, Callable[..., object]]:
    """Every public way to make a mechanism or a composition of one: classes, their class methods, functions."""
    found: dict[str, Callable[..., object]] = {kind.__name__: kind for kind in public()}
    for kind in public():
        for name, value in vars(kind).items():
            if isinstance(value, classmethod) and not name.startswith("_"):
                found[f"{kind.__name__}.{name}"] = getattr(kind, name)
    for name in dp.__all__:
        made = getattr(getattr(dp, name), "__annotations__", {}).get("return")
        if inspect.isfunction(getattr(dp, name)) and str(made).split(".")[-1] in {*found, "Mechanism", "Composition"}:
            found[name] = getattr(dp, name)
    return found


def scale(rng: Rng, low: float = 0.15, high: float = 4.0) -> float:
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


def share(rng: Rng) -> float:
    return float(rng.choice([rng.uniform(0.02, 0.98), 10.0 ** -rng.uniform(1, 7), 0.5]))


RELATIONS = "add_or_remove", "replace", "any"
"""That a user-defined loss may be about."""


def outcomes(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of a few outcomes with the record and without it, some of which are 0."""
    count = int(rng.integers(2, 5))
    p, q = rng.dirichlet(np.ones(count)), rng.dirichlet(np.ones(count))
    if rng.random() < 0.3:
        q = np.append(q[:-1], 0.0) / q[:-1].sum()
    if rng.random() < 0.2 and count > 2:
        p = np.append(0.0, p[1:]) / p[1:].sum()
    return p, q


def even(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """The same, where the second law is the first in the other order."""
    p = rng.dirichlet(np.ones(int(rng.integers(2, 5))))
    return p, p[::-1].copy()


def finite(p: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Losses in ascending order, their probabilities, and what either law has where the other has nothing."""
    both = (p > 0) & (q > 0)
    order = np.argsort(np.log(p[both] / q[both]), kind="stable")
    y, masses = np.log(p[both] / q[both])[order], p[both][order]
    return y, masses, float(p[q == 0].sum()), float(q[p == 0].sum())


def losses(rng: Rng, relations: tuple[str, ...] = RELATIONS) -> dp.PrivacyLoss:
    mirrored = bool(rng.random() < 0.3)
    p, q = even(rng) if mirrored else outcomes(rng)
    relation = relations[rng.integers(len(relations))]
    return dp.PrivacyLoss.from_distributions(p, q, relation=relation, mirrored=mirrored)


def table(rng: Rng) -> dp.PrivacyLoss:
    """All arguments by hand: the losses are off by what is said, and a lower pair may be given, of outcomes joined."""
    mirrored = bool(rng.random() < 0.3)
    p, q = even(rng) if mirrored else outcomes(rng)
    y, masses, infinity, hidden = finite(p, q)
    error = float(rng.choice([1e-9, 1e-4, 0.05]))
    said = np.sort(y + rng.uniform(-0.9, 0.9, len(y)) * error)
    if len(np.unique(said)) < len(said):
        return table(rng)
    lower = None
    if rng.random() < 0.5:
        kept = float(masses.sum())  # all finite losses as one outcome
        lower = ((math.log(kept / float((masses * np.exp(-y)).sum())),), (1 - infinity,), infinity)
    found = dp.PrivacyLoss(tuple(said), tuple(masses), infinity, 0.9 * hidden, "any", mirrored, error, lower)
    return remember_pair(found, y, masses, infinity, hidden, "table")


def remember_pair(
    found: dp.PrivacyLoss, y: np.ndarray, masses: np.ndarray, infinity: float, hidden: float, label: str
) -> dp.PrivacyLoss:
    """Notes the true pair behind a loss: finite losses y, and what P and Q alone have. Returns the loss."""
    KNOWN[found] = Pair(np.append(masses, [infinity, 0.0]), np.append(masses * np.exp(-y), [0.0, hidden]), label=label)
    return found


def from_pmf(rng: Rng) -> dp.PrivacyLoss:
    mirrored = bool(rng.random() < 0.3)
    p, q = even(rng) if mirrored else outcomes(rng)
    y, masses, infinity, hidden = finite(p, q)
    error = float(rng.choice([1e-9, 1e-3, 0.05]))
    said = y + rng.uniform(-0.9, 0.9, len(y)) * error
    options = {} if rng.random() < 0.5 else {"minus_infinity": 0.9 * hidden}
    relation = RELATIONS[rng.integers(3)]
    found = dp.PrivacyLoss.from_pmf(
        said, masses, infinity=infinity, relation=relation, mirrored=mirrored, loss_error=error, **options
    )
    return remember_pair(found, y, masses, infinity, hidden, "masses")


def from_cdf(rng: Rng) -> dp.PrivacyLoss:
    mirrored = bool(rng.random() < 0.3)
    p, q = even(rng) if mirrored else outcomes(rng)
    y, masses, infinity, hidden = finite(p, q)
    error = float(rng.choice([1e-12, 1e-4]))

    def cdf(at: np.ndarray) -> np.ndarray:
        found = np.array([masses[y <= one].sum() for one in at])
        return np.clip(found + rng.uniform(-0.9, 0.9, len(found)) * error, 0.0, 1.0)

    found = dp.PrivacyLoss.from_cdf(
        cdf, low=float(y.min() - 0.3), high=float(y.max() + rng.uniform(-0.2, 0.3) * (len(y) > 1) + 0.01),
        infinity=infinity, points=int(rng.integers(50, 400)), error=error, relation=RELATIONS[rng.integers(3)],
        mirrored=mirrored,
    )  # fmt: skip
    KNOWN[found] = Pair(np.append(masses, [infinity, 0.0]), np.append(masses * np.exp(-y), [0.0, hidden]), label="cdf")
    return found


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
    return dp.RandomAllocation(inner, steps, int(rng.integers(1, steps + 1)))


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
    dp.TreeAggregation: lambda r: dp.TreeAggregation(scale(r, 0.5), int(r.integers(1, 9)), bool(r.random() < 0.5)),
    dp.SampledWithReplacement: replacement,
}

NAMED: dict[str, Callable[[Rng], dp.Mechanism | dp.Composition]] = {
    "PrivacyLoss": table,
    "PrivacyLoss.from_pmf": from_pmf,
    "PrivacyLoss.from_distributions": losses,
    "PrivacyLoss.from_cdf": from_cdf,
    "RandomAllocation.fixed_bins": lambda r: dp.RandomAllocation.fixed_bins(
        dp.Gaussian(scale(r)), int(steps := r.integers(2, 4)), int(r.integers(2, 5)), int(r.integers(1, steps + 1))
    ),
    "banded_factorization": lambda r: dp.banded_factorization(
        scale(r), bands=int(r.integers(1, 4)), steps=int(r.integers(1, 7)), sampling_probability=share(r)
    ),
}
"""Other ways to make a mechanism than its class, and classes that are more often made by them."""


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


def run(rng: Rng, name: str | None = None, alone: bool = False) -> dp.Mechanism | dp.Composition:
    """One to four mechanisms; with ``name``, of ``constructors``, the first, or what it is made of, is of that. One
    mechanism if ``alone``, unless its constructor makes several."""
    kind = getattr(dp, name, None) if name else None
    derived = kind if kind in (dp.Group, dp.RepeatAndSelect) else None
    first = NAMED[name](rng) if name in NAMED else mechanism(rng, None if derived else kind)
    total: dp.Mechanism | dp.Composition = first
    for _ in range(0 if alone else int(rng.choice([0, 0, 0, 1, 2, 3]))):
        total = total + (first if rng.random() < 0.7 else mechanism(rng))
    if derived is dp.RepeatAndSelect or (derived is None and not alone and rng.random() < 0.1):
        shape = [0.0, 1.0, -0.5, 2.5, "poisson"][rng.integers(5)]
        return dp.RepeatAndSelect(total, scale(rng, 1.0, MEAN), shape)
    if derived is dp.Group:
        if rng.random() < 0.2 and records(total) == MOST:
            return dp.Group(dp.Group(total, 2), 2)
        return dp.Group(total, min(int(rng.integers(2, 4)), records(total)))
    return total


def records(asked: dp.Mechanism | dp.Composition) -> int:
    """The least size of a data set that is public: no group is larger."""
    found = MOST
    for part, _ in asked._to_composition().parts:
        inside = part.mechanism if isinstance(part, (dp.Group, dp.RepeatAndSelect)) else None
        size = getattr(part, "dataset_size", MOST) if inside is None else records(inside)
        found = min(found, size)
    return found


def draw(rng: Rng, name: str | None = None, relation: str | None = None, alone: bool = False) -> Case:
    """One case; ``name`` is one of ``constructors``, and ``alone`` asks for the simplest of its kind."""
    found = run(rng, name, alone)
    relation = relation or str(rng.choice(NEIGHBORS))
    group = 1 if alone or name == "Group" or rng.random() < 0.5 else min(int(rng.integers(2, 5)), records(found))
    return Case(found, relation, group)


def kinds(parts: Parts) -> Iterable[str]:
    """The classes that a run is made of, samplers with what runs on the sample."""
    for part, _ in parts:
        name = type(part).__name__
        inner = getattr(part, "mechanism", None)
        if isinstance(part, (dp.Group, dp.RepeatAndSelect)):
            yield name
            yield from (f"{name} of {inside}" for inside in kinds(tuple(inner._to_composition().parts)))
        else:
            yield name if inner is None else f"{name} of {type(inner).__name__}"


class Report:
    """How often each kind was compared, and what came to nothing, under each relation and for each size of group."""

    def __init__(self) -> None:
        self.compared: Counter[tuple[str, str, int]] = Counter()
        self.refused: Counter[tuple[str, str, int]] = Counter()
        self.unseen: Counter[tuple[str, str, int]] = Counter()
        self.cases: Counter[str] = Counter()
        self.wide: list[str] = []
        """Complaints about answers that are right and needlessly wide."""

    def add(self, case: Case, refused: bool = False, late: bool = False) -> None:
        """Counts a case once: a refusal, a case that was not asked to the end, and one of which no data sets are
        enumerated for some step compare nothing."""
        word = "refused" if refused else "compared" if not late and case.truth.enumerated else "unseen"
        self.cases[word] += 1
        for kind in set(kinds(case.parts)):
            getattr(self, word)[kind, case.relation, case.group] += 1

    @property
    def too_few(self) -> bool:
        """Whether less than two thirds of the answers were compared."""
        return 3 * self.cases["compared"] < 2 * (self.cases["compared"] + self.cases["unseen"])

    def __str__(self) -> str:
        tables = self.compared, self.refused, self.unseen
        names = sorted({kind for table in tables for kind, _, _ in table})
        lines = [f"{'compared/refused/unseen':58}" + "".join(f"{relation:>17}" for relation in NEIGHBORS)]
        for name in names:
            cells = []
            for relation in NEIGHBORS:
                sums = (sum(n for (kind, r, _), n in t.items() if kind == name and r == relation) for t in tables)
                cells.append("/".join(map(str, sums)))
            lines.append(f"{name:58}" + "".join(f"{cell:>17}" for cell in cells))
        groups = Counter({k: sum(n for (_, _, g), n in self.compared.items() if g == k) for k in range(1, 5)})
        return "\n".join([*lines, f"by size of the group: {dict(groups)}", str(dict(self.cases)),
                          f"needlessly wide answers: {len(self.wide)}", *self.wide])  # fmt: skip
