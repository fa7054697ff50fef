"""Mechanisms that are built from a whole composition, for the best of several runs and for groups of records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._support import _check
from .._support.rounded_division import divide_rounding_down
from ..composition import Composable, Composition, Mechanism, Parts
from ..options import EVERY, Neighbors
from .checked_fields import set_mechanism_fields
from .noise_mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, MixtureOfGaussians, TreeAggregation
from .samplers import PoissonSampled
from .stated_guarantees import ZCDP

POISSON = "poisson"
"""Value of ``shape`` for which the number of runs has a Poisson distribution."""
MOST_RECORDS = 1000
"""Largest size of a group. The running time grows with the size, because the bound of a group is derived record by
record."""


class SelectionOrGroup(Mechanism):
    """Base of mechanisms that are derived from ``mechanism``, which is one mechanism or a composition."""

    __slots__ = ()
    mechanism: Composable

    @property
    def parts(self) -> Parts:
        """Parts of the composition ``mechanism``."""
        return self.mechanism._to_composition().parts

    @property
    def relations(self) -> frozenset[Neighbors]:  # type: ignore[override]
        """Relations under which every part has a dominating pair."""
        return EVERY.intersection(*(mechanism.relations for mechanism, _ in self.parts))

    @property
    def unproved_mechanism_reason(self) -> str:  # type: ignore[override]
        return next(
            (mechanism.unproved_mechanism_reason for mechanism, _ in self.parts if mechanism.relations != EVERY),
            Mechanism.unproved_mechanism_reason,
        )

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        """True if "add" and "remove" have the same privacy profile for the mechanism of every part."""
        return all(mechanism.symmetric for mechanism, _ in self.parts)

    @property
    def any_size(self) -> bool:  # type: ignore[override]
        """True if the pair of every part's mechanism holds for data sets of every size."""
        return all(mechanism.any_size for mechanism, _ in self.parts)


def _unpack_inner_mechanism(run: Any) -> Composable:
    """Returns the mechanism if ``run`` is a composition of just one mechanism, and otherwise the composition.

    Raises TypeError if ``run`` is neither a mechanism nor a composition.
    """
    if not isinstance(run, Composable):
        raise TypeError(f"mechanism must be a Mechanism or a Composition, got {run!r}")
    parts = run._to_composition().parts
    return parts[0][0] if len(parts) == 1 and parts[0][1] == 1 else Composition(parts)


@dataclass(frozen=True, slots=True)
class RepeatAndSelect(SelectionOrGroup):
    """Runs ``mechanism`` a random number of times, and releases only the best output.

    A search for hyperparameters is charged as this mechanism. Neither the number of runs nor the other outputs are
    released.

    ``mechanism`` is one mechanism or a composition. The best output is the first one in an order of the outputs that
    does not depend on the data. So if outputs are compared by a score, the score must be a part of the output. The
    number of runs has the expectation ``mean``. The distribution of this number is the truncated negative binomial of
    ``shape`` > -1. A shape of 1 gives the geometric distribution, and 0 the logarithmic one. With ``shape="poisson"``
    the distribution is Poisson, so there may be no run and no release. The upper end of a bound holds for all
    mechanisms with the privacy profile of ``mechanism``. The lower end holds for some of them (docs/theory/derived.md
    section 1). Source: Papernot and Steinke (2022), Theorems 2 and 6.

    Parameters
    ----------
    mechanism : the mechanism or composition of one run.
    mean : the expected number of runs, at least 1, or > 0 for "poisson".
    shape : a number > -1, or "poisson".

    Raises ValueError for a ``mean`` or a ``shape`` out of its range.

    >>> runs = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000
    >>> search = dp.RepeatAndSelect(runs, mean=20)
    >>> round(search.epsilon(1e-5).upper / runs.epsilon(1e-5).upper, 1)
    1.7
    """

    mechanism: Composable
    mean: float
    shape: float | str = 1.0

    def __post_init__(self) -> None:
        accepted = "a number in (-1, inf) or 'poisson'"
        shape = self.shape
        if isinstance(shape, str):
            if shape != POISSON:
                raise ValueError(f"shape must be {accepted}, got {shape!r}")
        elif shape == math.inf:
            shape = POISSON
        else:
            shape = _check.check_real_argument("shape", shape, accepted)
            if not shape > -1:
                raise ValueError(f"shape must be {accepted}, got {shape!r}")
        mean = _check.positive("mean", self.mean)
        if shape != POISSON and mean < 1:
            raise ValueError(f"mean must be a number in [1, inf) unless shape is 'poisson', got {mean!r}")
        set_mechanism_fields(self, mechanism=_unpack_inner_mechanism(self.mechanism), mean=mean, shape=shape)

    def _to_canonical_mechanism(self) -> tuple[Mechanism, int]:
        if self.mean == 1 and self.shape != POISSON and isinstance(self.mechanism, Mechanism):
            return self.mechanism._to_canonical_mechanism()
        return self, 1

    def _sort_key(self) -> tuple[Any, ...]:
        shape = math.inf if isinstance(self.shape, str) else self.shape
        return type(self).__name__, self.mechanism._sort_key(), self.mean, shape

    def _list_parameters(self) -> Mapping[str, Any]:
        return {"mechanism": self.mechanism, "mean": self.mean, "shape": self.shape}


@dataclass(frozen=True, slots=True)
class Group(SelectionOrGroup):
    """Runs ``mechanism``, one mechanism or a composition, for neighbours that differ by a group of ``size`` records.

    The records of the group are added or removed together, or each of them is replaced. The bounds hold for smaller
    groups too. ``size`` is at most 1000, and at most the ``dataset_size`` of a mechanism that has one. This
    ``dataset_size`` includes all records of the group. The bounds are derived as if one record were removed after the
    other, and each removal reduces ``dataset_size`` by 1.

    Two cases are exact. Gaussians, Laplace noise and their discrete forms get ``size`` times the sensitivity. Gaussians
    in Poisson samples and mixtures of Gaussians become mixtures, if these have at most 1000 components. In all other
    cases the upper end is the smallest bound that holds for all mechanisms with the privacy profile of ``mechanism``.
    The lower end is the one for a single record (docs/theory/derived.md section 2). ``Composition.group`` treats a
    mechanism of a composition separately if that is exact.

    Raises ValueError for a ``size`` out of its range.

    >>> family = dp.Group(dp.Gaussian(2.0), 3)
    >>> family.epsilon(1e-5).upper == dp.Gaussian(2.0 / 3).epsilon(1e-5).upper
    True
    """

    mechanism: Composable
    size: int

    def __post_init__(self) -> None:
        size = _check.check_count_argument("size", self.size, most=MOST_RECORDS)
        run = _unpack_inner_mechanism(self.mechanism)
        most = _count_largest_group_of_mechanisms(run._to_composition().parts)
        if size > most:
            raise ValueError(
                f"size must be at most the number of records of the data set, {most}, got {size} for {run!r}"
            )
        set_mechanism_fields(self, mechanism=run, size=size)

    def _to_canonical_mechanism(self) -> tuple[Mechanism, int]:
        if not isinstance(self.mechanism, Mechanism):
            return self, 1
        if self.size == 1:
            return self.mechanism._to_canonical_mechanism()
        if isinstance(self.mechanism, Group) and self.mechanism.size * self.size <= MOST_RECORDS:
            return Group(self.mechanism.mechanism, self.mechanism.size * self.size)._to_canonical_mechanism()
        return scale_mechanism_to_group(self.mechanism, self.size) or self, 1


def _count_largest_group_of_mechanisms(parts: Parts) -> float:
    """Returns the size of the largest group in a data set of the declared size; infinity if no size is declared."""
    most = math.inf
    for mechanism, _ in parts:
        if mechanism.any_size:
            continue
        if isinstance(mechanism, SelectionOrGroup):
            each = mechanism.size if isinstance(mechanism, Group) else 1
            most = min(most, _count_largest_group_of_mechanisms(mechanism.parts) // each)
        else:
            most = min(most, mechanism.dataset_size)  # type: ignore[attr-defined]
    return most


def build_group_of_mechanisms(run: Composition, size: int) -> Composition:
    """Returns ``run`` for a group of ``size`` records. A mechanism is treated separately if that is exact."""
    size = _check.check_count_argument("size", size, most=MOST_RECORDS)
    if size == 1:
        return run
    own = [
        part
        for part in run.parts
        if scale_mechanism_to_group(part[0], size) or _has_mechanism_group_bound(part[0], size)
    ]
    rest = Composition(part for part in run.parts if part not in own)
    made = Composition((Group(mechanism, size), count) for mechanism, count in own)
    return made + Composition(((Group(rest, size), 1),)) if rest else made


def _has_mechanism_group_bound(mechanism: Mechanism, size: int) -> bool:
    """Returns whether ``mechanism`` has a bound for groups of ``size`` that holds inside of a composition too."""
    match mechanism:
        case PoissonSampled(Gaussian()):
            return True
        case MixtureOfGaussians(_, norms) | PoissonSampled(MixtureOfGaussians(_, norms)):
            return math.comb(len(norms) + size, size) <= MOST_RECORDS  # sums of up to ``size`` norms
        case ZCDP(_, xi):
            return xi == 0
    return False


def scale_mechanism_to_group(mechanism: Mechanism, size: int) -> Mechanism | None:
    """Returns the mechanism with the same noise and ``size`` times the sensitivity; None if this library has none."""
    match mechanism:
        case Gaussian(sigma):
            return Gaussian(divide_rounding_down(sigma, size))
        case Laplace(scale):
            return Laplace(divide_rounding_down(scale, size))
        case DiscreteGaussian(sigma, sensitivity) if sensitivity * size <= _check.MAX_COUNT:
            return DiscreteGaussian(sigma, sensitivity * size)
        case DiscreteLaplace(scale, sensitivity) if sensitivity * size <= _check.MAX_COUNT:
            return DiscreteLaplace(scale, sensitivity * size)
        case TreeAggregation(sigma, steps, own):  # a group has up to ``size`` contributions in a level
            return TreeAggregation(divide_rounding_down(sigma, size), steps, own)
    return None
