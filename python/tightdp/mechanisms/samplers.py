"""Mechanisms that run on a random sample of the records, or give each record to a random part of the steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .._support import _check
from ..composition import Composition, Mechanism
from ..options import SIZED, Neighbors
from .checked_fields import set_mechanism_fields
from .noise_mechanisms import Gaussian, MixtureOfGaussians, TreeAggregation
from .stated_guarantees import RandomizedResponse


@dataclass(frozen=True, slots=True)
class PoissonSampled(Mechanism):
    """Runs ``mechanism`` on a batch that holds each record independently with probability ``sampling_probability``.

    Shuffled batches and batches of fixed size are not Poisson batches, and must not be accounted as Poisson batches.

    Parameters
    ----------
    mechanism : what runs on the batch, a mechanism that can run on a sample.
    sampling_probability : probability with which each record is in the batch, in (0, 1].

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> run = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000
    >>> print(f"epsilon <= {run.epsilon(1e-5):.3f}")
    epsilon <= 1.829
    """

    symmetric, any_size = False, True
    mechanism: Mechanism
    sampling_probability: float

    def __post_init__(self) -> None:
        _check_sampled_mechanism(self.mechanism)
        q = _check.probability("sampling_probability", self.sampling_probability)
        set_mechanism_fields(self, sampling_probability=q)

    @property
    def relations(self) -> frozenset[Neighbors]:  # type: ignore[override]
        """Relations with a proved dominating pair, which depend on the mechanism."""
        return self.mechanism.sampled_relations

    def _to_canonical_mechanism(self) -> tuple[Mechanism, int]:
        return self.mechanism._to_canonical_mechanism() if self.sampling_probability == 1 else (self, 1)


@dataclass(frozen=True, slots=True)
class TruncatedPoissonSampled(Mechanism):
    """Runs ``mechanism`` on a Poisson sample, cut to ``batch_size`` records.

    The sample holds each of ``dataset_size`` records with ``sampling_probability``. If the sample is larger than
    ``batch_size``, ``mechanism`` runs on ``batch_size`` records drawn uniformly from the sample.

    ``dataset_size`` is public, and includes the record that is added or removed. The upper end comes from a mixture of
    a Poisson sample and a sample of fixed size. The lower end comes from a Poisson sample whose sampling probability is
    the probability that a record is in the batch (docs/theory/mixtures.md section 5). Source: Ganesh (2025), arXiv
    2508.15089.

    Parameters
    ----------
    mechanism : what runs on the batch, a mechanism that can run on a sample.
    sampling_probability : probability with which each record is in the Poisson sample, in (0, 1].
    batch_size : largest number of records in the batch, an integer >= 1.
    dataset_size : public number of records, an integer >= 1.

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> run = dp.TruncatedPoissonSampled(dp.Gaussian(1.0), 0.01, 200, 10_000) * 100
    >>> print(f"epsilon <= {run.epsilon(1e-5):.3f}")
    epsilon <= 0.719
    """

    symmetric, any_size = False, False
    mechanism: Mechanism
    sampling_probability: float
    batch_size: int
    dataset_size: int

    def __post_init__(self) -> None:
        _check_sampled_mechanism(self.mechanism, of_any_size=True)
        q = _check.probability("sampling_probability", self.sampling_probability)
        n, b = (
            _check.check_count_argument("dataset_size", self.dataset_size),
            _check.check_count_argument("batch_size", self.batch_size),
        )
        set_mechanism_fields(self, sampling_probability=q, dataset_size=n, batch_size=b)

    @property
    def relations(self) -> frozenset[Neighbors]:  # type: ignore[override]
        """Relations under which Poisson samples have a dominating pair. The set is empty unless the mechanism on a
        sample has a pair for "replace", because another record may take the place of a removed record in a cut
        sample."""
        sampled = self.mechanism.sampled_relations
        return sampled if "replace" in sampled else frozenset()

    def _to_canonical_mechanism(self) -> tuple[Mechanism, int]:
        if self.batch_size < self.dataset_size:
            return self, 1
        return PoissonSampled(self.mechanism, self.sampling_probability)._to_canonical_mechanism()


@dataclass(frozen=True, slots=True)
class SampledWithReplacement(Mechanism):
    """Runs a ``Gaussian`` on the sum of ``sample_size`` records that are drawn with replacement from ``dataset_size``
    records.

    The mechanism is accounted only under "replace" and "replace_special". The two ends of a bound differ. The
    upper end assumes that all other records contribute the negative of the one exchanged record, and also the negative
    of the other. Both cannot hold together (docs/theory/mixtures.md section 6).

    Parameters
    ----------
    mechanism : what runs on the batch, a ``Gaussian``.
    sample_size : number of draws, an integer >= 1.
    dataset_size : public number of records, an integer >= 1.

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> run = dp.SampledWithReplacement(dp.Gaussian(1.0), 100, 10_000) * 10
    >>> print(f"epsilon <= {run.epsilon(1e-5, neighbors='replace'):.3f}")
    epsilon <= 6.363
    """

    relations, symmetric, any_size = SIZED, False, False
    unproved_mechanism_reason = (
        "adding or removing a record changes the size of the data set that the sample is drawn from"
    )
    mechanism: Gaussian
    sample_size: int
    dataset_size: int

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Gaussian):
            raise TypeError(f"mechanism must be a Gaussian, got {self.mechanism!r}")
        n, b = (
            _check.check_count_argument("dataset_size", self.dataset_size),
            _check.check_count_argument("sample_size", self.sample_size),
        )
        set_mechanism_fields(self, dataset_size=n, sample_size=b)


@dataclass(frozen=True, slots=True)
class FixedSizeSampled(Mechanism):
    """Runs ``mechanism`` on a uniformly random batch of exactly ``sample_size`` out of ``dataset_size`` records.

    The mechanism is accounted only under "replace" and "replace_special", since adding a record would change the size
    of the data set.

    Parameters
    ----------
    mechanism : what runs on the batch, a mechanism that can run on a sample.
    sample_size : number of records in the batch, an integer in [1, dataset_size].
    dataset_size : public number of records, an integer >= 1.

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> run = dp.FixedSizeSampled(dp.Laplace(2.0), 100, 10_000) * 10
    >>> print(f"epsilon <= {run.epsilon(1e-5, neighbors='replace'):.3f}")
    epsilon <= 0.106
    """

    symmetric, any_size = True, False
    unproved_mechanism_reason = (
        "adding or removing a record changes the size of the data set that the sample is drawn from"
    )
    mechanism: Mechanism
    sample_size: int
    dataset_size: int

    def __post_init__(self) -> None:
        _check_sampled_mechanism(self.mechanism, of_any_size=True)
        n = _check.check_count_argument("dataset_size", self.dataset_size)
        set_mechanism_fields(
            self, dataset_size=n, sample_size=_check.check_count_argument("sample_size", self.sample_size, most=n)
        )

    @property
    def relations(self) -> frozenset[Neighbors]:  # type: ignore[override]
        """Relations with a proved dominating pair, all of which keep the number of records."""
        return (
            SIZED & self.mechanism.sampled_relations if "replace" in self.mechanism.sampled_relations else frozenset()
        )

    def _to_canonical_mechanism(self) -> tuple[Mechanism, int]:
        return self.mechanism._to_canonical_mechanism() if self.sample_size == self.dataset_size else (self, 1)


@dataclass(frozen=True, slots=True)
class RandomAllocation(Mechanism):
    """Runs ``mechanism`` in ``steps`` rounds, and each record takes part in ``selected`` of them ("balls in bins").

    The rounds of a record are drawn uniformly, and independently of the other records. If each epoch draws new rounds,
    several epochs are ``RandomAllocation(mechanism, steps, selected) * epochs``. If a record keeps its rounds in all
    epochs, use ``fixed_bins``, which has a far larger epsilon.

    Parameters
    ----------
    mechanism : what runs in each round, a mechanism that can run on a sample.
    steps : number of rounds, an integer >= 1.
    selected : number of rounds of each record, an integer in [1, steps].

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> run = dp.RandomAllocation(dp.Gaussian(1.0), 100)
    >>> print(f"epsilon <= {run.epsilon(1e-5):.2f}")
    epsilon <= 0.63
    """

    symmetric, any_size = False, True
    mechanism: Mechanism
    steps: int
    selected: int = 1

    def __post_init__(self) -> None:
        _check_sampled_mechanism(self.mechanism, of_any_size=True)
        steps = _check.check_count_argument("steps", self.steps)
        set_mechanism_fields(
            self, steps=steps, selected=_check.check_count_argument("selected", self.selected, most=steps)
        )

    @classmethod
    def fixed_bins(cls, mechanism: Mechanism, steps: int, epochs: int, selected: int = 1) -> RandomAllocation:
        """Returns ``epochs`` epochs of ``steps`` rounds. In all epochs a record keeps its ``selected`` rounds.

        The rounds are drawn once ("balls in bins" batches that are not shuffled again). ``mechanism`` must be a
        ``Gaussian`` unless ``epochs`` is 1. A record contributes to the same round once in each epoch. All these
        contributions together have sqrt(epochs) times the norm of one. The contributions may depend on earlier outputs.
        The result is exact, except for the last digit of the noise multiplier, which is rounded down
        (docs/theory/allocation.md section 8).

        >>> RandomAllocation.fixed_bins(Gaussian(2.0), steps=100, epochs=4)
        RandomAllocation(mechanism=Gaussian(noise_multiplier=1.0), steps=100, selected=1)
        """
        epochs = _check.check_count_argument("epochs", epochs)
        if epochs == 1:
            return cls(mechanism, steps, selected)
        if not isinstance(mechanism, Gaussian):
            raise ValueError(
                f"mechanism must be a Gaussian where epochs is more than 1, got {mechanism!r}: the account of fixed "
                f"bins is proved for Gaussian noise only"
            )
        sigma = mechanism.noise_multiplier
        shared = sigma / math.sqrt(epochs)
        while Fraction(shared) ** 2 * epochs > Fraction(sigma) ** 2:
            shared = math.nextafter(shared, 0.0)
        return cls(Gaussian(max(shared, math.ulp(0.0))), steps, selected)

    @property
    def relations(self) -> frozenset[Neighbors]:  # type: ignore[override]
        """Relations with a proved dominating pair, which depend on the mechanism."""
        return self.mechanism.sampled_relations - {"replace"}

    def _to_canonical_mechanism(self) -> tuple[Mechanism, int]:
        inner, count = self.mechanism._to_canonical_mechanism()
        return (inner, count * self.steps) if self.selected == self.steps else (self, 1)


def banded_factorization(
    noise_multiplier: float, *, bands: int, steps: int, sampling_probability: float
) -> Composition:
    """Returns the charge of DP-SGD whose noise is correlated over steps by a banded matrix (BandMF).

    The release is C x + z, where C is the banded matrix. Row t of x is the sum of the clipped gradients of step t. The
    noise z is normal, and its standard deviation is ``noise_multiplier`` times the bound on a record's norm. C[i, j] is
    0 unless 0 <= i - j < ``bands``, and the columns of C have L2 norm at most 1. The records are divided into ``bands``
    groups, and the group of a record does not depend on the other records. Step t takes a Poisson sample, with
    ``sampling_probability``, of group t modulo ``bands``. So a group is used in at most k = ceil(steps / bands) steps.
    The charge is k times ``PoissonSampled(Gaussian(noise_multiplier), sampling_probability)``, under every relation.
    The charge is exact if C is the identity (docs/theory/closed-forms.md section 7). Raises ValueError or TypeError,
    which names a bad argument and its range. Source: Choquette-Choo et al. (2023), arXiv 2306.08153, Theorem 4.

    >>> banded_factorization(1.0, bands=16, steps=2000, sampling_probability=0.16)
    PoissonSampled(mechanism=Gaussian(noise_multiplier=1.0), sampling_probability=0.16) * 125
    """
    step = PoissonSampled(Gaussian(noise_multiplier), sampling_probability)
    width = _check.check_count_argument("bands", bands)
    return step * -(-_check.check_count_argument("steps", steps) // width)


_SAMPLERS = (PoissonSampled, TruncatedPoissonSampled, SampledWithReplacement, FixedSizeSampled, RandomAllocation)


def _check_sampled_mechanism(mechanism: Any, of_any_size: bool = False) -> None:
    """Raises TypeError or ValueError unless ``mechanism`` can run on a sample.

    With ``of_any_size`` a mixture of Gaussians is refused too, because it can run only on a Poisson sample.
    """
    if not isinstance(mechanism, Mechanism):
        raise TypeError(f"mechanism must be a Mechanism that is not sampled already, got {mechanism!r}")
    if isinstance(mechanism, _SAMPLERS):
        raise ValueError(
            f"mechanism must not be sampled already (multiply the probabilities of nested Poisson samples), "
            f"got {mechanism!r}"
        )
    if of_any_size and isinstance(mechanism, MixtureOfGaussians):
        raise ValueError(f"mechanism must not be a mixture, which can run on Poisson samples only, got {mechanism!r}")
    if isinstance(mechanism, TreeAggregation):
        raise ValueError(
            f"mechanism must be one that runs on one sample, got {mechanism!r}: a tree has the records of all steps "
            f"of an epoch"
        )
    if isinstance(mechanism, RandomizedResponse):
        raise ValueError(
            f"mechanism must have an output without the record, got {mechanism!r}: randomised response compares two "
            f"answers of one person, so there is nothing for a sample to leave out"
        )
    if not mechanism.sampled_relations:
        raise ValueError(f"mechanism must be one that runs on a sample, got {mechanism!r}")
