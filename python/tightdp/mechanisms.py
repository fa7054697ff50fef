"""Mechanisms: frozen, hashable values whose repr builds them again.

Each mechanism stands for a pair of output distributions, P with the record and Q without it, that dominates the pair of
any two neighbouring data sets. A sensitivity bounds the contribution of one record, so under "replace" the
contributions of two records may differ by twice as much (``accounting/pairs/neighbors.py``). A parameter out of its
range raises ValueError or TypeError, which names the parameter and its range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ._core import check_arithmetic
from ._support import _check
from .composition import Composition
from .composition import Mechanism as Mechanism
from .options import EVERY, SIZED, Neighbors


def _set_mechanism_fields(mechanism: Mechanism, /, **checked: object) -> None:
    """Sets fields to checked parameters. Raises RuntimeError if floating-point arithmetic is not as the checks assume.

    Arithmetic that flushes subnormal numbers to zero would have changed a subnormal parameter to zero.
    """
    check_arithmetic()
    for name, value in checked.items():
        object.__setattr__(mechanism, name, value)


def _divide_scale_of_mechanism(scale: float, sensitivity: float) -> float:
    """Returns ``scale / sensitivity``, rounded down to a double, so that the account never assumes too much noise."""
    scale, sensitivity = _check.positive("scale", scale), _check.positive("sensitivity", sensitivity)
    ratio = scale / sensitivity
    while Fraction(ratio) * Fraction(sensitivity) > Fraction(scale):
        ratio = math.nextafter(ratio, 0.0)
    return ratio


@dataclass(frozen=True, slots=True)
class Gaussian(Mechanism):
    """Adds N(0, sigma^2 I) to a sum of vectors. ``noise_multiplier`` is sigma over the bound on the vectors' L2 norm.

    Parameters
    ----------
    noise_multiplier : deviation of the noise over the largest L2 norm of one record's contribution, in (0, inf).

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> print(f"epsilon <= {(dp.Gaussian(2.0) * 3).epsilon(1e-6):.3f}")
    epsilon <= 4.152
    """

    relations, sampled, symmetric, any_size = EVERY, EVERY, True, True
    noise_multiplier: float

    def __post_init__(self) -> None:
        _set_mechanism_fields(self, noise_multiplier=_check.positive("noise_multiplier", self.noise_multiplier))

    @classmethod
    def from_scale(cls, scale: float, sensitivity: float) -> Gaussian:
        """Returns the mechanism of noise whose standard deviation and sensitivity are in the units of the data.

        Parameters
        ----------
        scale : standard deviation of the noise, in (0, inf).
        sensitivity : largest L2 norm of one record's contribution, in (0, inf).

        Raises ValueError for a number out of its range. The quotient is rounded down, so no bound becomes too small.

        >>> dp.Gaussian.from_scale(scale=50.0, sensitivity=25.0)
        Gaussian(noise_multiplier=2.0)
        """
        return cls(_divide_scale_of_mechanism(scale, sensitivity))


@dataclass(frozen=True, slots=True)
class Laplace(Mechanism):
    """Adds Laplace noise of scale b to a sum of vectors. ``noise_multiplier`` is b over the bound on the vectors' L1
    norm.

    Parameters
    ----------
    noise_multiplier : scale of the noise over the largest L1 norm of one record's contribution, in (0, inf).

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> print(f"epsilon <= {dp.Laplace(2.0).epsilon(0.0):.3f}")
    epsilon <= 0.501
    """

    relations, sampled, symmetric, any_size = EVERY, EVERY, True, True
    noise_multiplier: float

    def __post_init__(self) -> None:
        _set_mechanism_fields(self, noise_multiplier=_check.positive("noise_multiplier", self.noise_multiplier))

    @classmethod
    def from_scale(cls, scale: float, sensitivity: float) -> Laplace:
        """Returns the mechanism of noise whose scale and sensitivity are in the units of the data.

        Parameters
        ----------
        scale : scale of the noise, in (0, inf).
        sensitivity : largest L1 norm of one record's contribution, in (0, inf).

        Raises ValueError for a number out of its range. The quotient is rounded down, so no bound becomes too small.

        >>> dp.Laplace.from_scale(scale=50.0, sensitivity=25.0)
        Laplace(noise_multiplier=2.0)
        """
        return cls(_divide_scale_of_mechanism(scale, sensitivity))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PureDP(Mechanism):
    """Any mechanism that is ``epsilon``-DP.

    The account uses binary randomised response, which dominates all such mechanisms.

    The parameter is kept as ``nominal_epsilon``, because ``epsilon`` is a method of every mechanism.

    Parameters
    ----------
    epsilon : the guarantee in nats, in [0, inf).

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> print(f"epsilon <= {(dp.PureDP(0.1) * 10).epsilon(1e-6):.3f}")
    epsilon <= 1.000
    """

    relations, sampled, symmetric, any_size = EVERY, EVERY, True, True
    nominal_epsilon: float

    def __init__(self, epsilon: float) -> None:
        _set_mechanism_fields(self, nominal_epsilon=_check.nonnegative("epsilon", epsilon))

    def _list_parameters(self) -> Mapping[str, Any]:
        return {"epsilon": self.nominal_epsilon}

    def __repr__(self) -> str:
        return f"PureDP(epsilon={self.nominal_epsilon!r})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ApproximateDP(Mechanism):
    """Any mechanism that is (``epsilon``, ``delta``)-DP.

    It is accounted as the worst such mechanism, which reveals everything with probability ``delta`` and otherwise is
    binary randomised response. The parameters are kept as ``nominal_epsilon`` and ``nominal_delta``.

    Parameters
    ----------
    epsilon : the guarantee in nats, in [0, inf).
    delta : its probability of failure, in [0, 1].

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> print(f"delta <= {(dp.ApproximateDP(0.1, 1e-7) * 10).delta(1.0):.2e}")
    delta <= 1.00e-06
    """

    relations, sampled, symmetric, any_size = EVERY, EVERY, True, True
    nominal_epsilon: float
    nominal_delta: float

    def __init__(self, epsilon: float, delta: float) -> None:
        e, d = _check.nonnegative("epsilon", epsilon), _check.closed_unit("delta", delta)
        _set_mechanism_fields(self, nominal_epsilon=e, nominal_delta=d)

    def _to_canonical(self) -> tuple[Mechanism, int]:
        return (PureDP(self.nominal_epsilon) if self.nominal_delta == 0 else self), 1

    def _list_parameters(self) -> Mapping[str, Any]:
        return {"epsilon": self.nominal_epsilon, "delta": self.nominal_delta}

    def __repr__(self) -> str:
        return f"ApproximateDP(epsilon={self.nominal_epsilon!r}, delta={self.nominal_delta!r})"


@dataclass(frozen=True, slots=True)
class RandomizedResponse(Mechanism):
    """Answers truthfully, or, with probability ``noise_parameter``, uniformly at random.

    A random answer is drawn from all ``num_buckets`` answers, including the true one. Under every relation, neighbours
    differ in one person's true answer.

    Parameters
    ----------
    noise_parameter : probability of an answer that is drawn uniformly, in (0, 1].
    num_buckets : number of possible answers, an integer >= 2.

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> print(f"epsilon <= {dp.RandomizedResponse(0.5, 2).epsilon(0.0):.3f}")
    epsilon <= 1.099
    """

    relations, symmetric, any_size = EVERY, True, True
    noise_parameter: float
    num_buckets: int

    def __post_init__(self) -> None:
        _set_mechanism_fields(self, noise_parameter=_check.probability("noise_parameter", self.noise_parameter))
        _set_mechanism_fields(self, num_buckets=_check.check_count_argument("num_buckets", self.num_buckets, least=2))


@dataclass(frozen=True, slots=True)
class BoundedRange(Mechanism):
    """Any mechanism whose privacy losses lie in some interval of length ``eta``.

    Examples are the exponential mechanism and the noisy maximum with Gumbel noise. For scores of sensitivity D,
    Gumbel noise of scale 2D/eta gives ``eta``. If adding a record never lowers a score, or never raises one, scale
    D/eta is enough.

    Parameters
    ----------
    eta : length of the interval of privacy losses in nats, in [0, inf).

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> print(f"epsilon <= {(dp.BoundedRange(0.1) * 100).epsilon(1e-6):.3f}")
    epsilon <= 2.252
    """

    relations, sampled, symmetric, any_size = EVERY, EVERY, True, True
    eta: float

    def __post_init__(self) -> None:
        _set_mechanism_fields(self, eta=_check.nonnegative("eta", self.eta))


@dataclass(frozen=True, slots=True)
class ZCDP(Mechanism):
    """Any (``xi``, ``rho``)-zCDP mechanism: its Renyi divergences of every order a > 1 are at most ``xi + a * rho``.

    This class of mechanisms has no dominating pair. Upper ends come from the Renyi engine. Lower ends come from members
    of the class. For a single mechanism, the member is the one that reveals most among all members that release one
    bit. In a composition the member is the Gaussian of noise multiplier ``(2 rho)^(-1/2)`` (docs/theory/conversions.md
    section 7). Source: Bun and Steinke (2016), Definitions 1.1 and 8.1.

    Parameters
    ----------
    rho : slope of the bound on Renyi divergences in nats, in [0, inf).
    xi : constant term of this bound in nats, in [0, inf).

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> print(f"epsilon in {(dp.ZCDP(0.1) * 2).epsilon(1e-6).interval('.3f')}")
    epsilon in [2.921, 3.132]
    """

    relations, sampled, symmetric, any_size = EVERY, EVERY, True, True
    rho: float
    xi: float = 0.0

    def __post_init__(self) -> None:
        _set_mechanism_fields(self, rho=_check.nonnegative("rho", self.rho), xi=_check.nonnegative("xi", self.xi))

    def _to_canonical(self) -> tuple[Mechanism, int]:
        return (PureDP(self.xi) if self.rho == 0 else self), 1  # all divergences, and so all losses, are at most xi


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Mechanism):
    """Adds integer noise with P(n) proportional to exp(-n^2 / (2 sigma^2)) to an integer count that one record moves
    by at most ``sensitivity``.

    Parameters
    ----------
    sigma : scale of the noise in units of the count, in (0, inf).
    sensitivity : largest change of the count by one record, an integer >= 1.

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> print(f"epsilon <= {dp.DiscreteGaussian(20.0).epsilon(1e-6):.3f}")
    epsilon <= 0.190
    """

    relations, sampled, symmetric, any_size = EVERY, EVERY, True, True
    sigma: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        _set_mechanism_fields(self, sigma=_check.positive("sigma", self.sigma))
        _set_mechanism_fields(self, sensitivity=_check.check_count_argument("sensitivity", self.sensitivity))

    @classmethod
    def from_scale(cls, scale: float, sensitivity: int) -> DiscreteGaussian:
        """Returns the mechanism of noise of this ``scale``, in (0, inf), and ``sensitivity``, an integer >= 1.

        Raises ValueError for a number out of its range. This method equals the constructor, and exists because
        ``Gaussian`` and ``Laplace`` have a method of this name. For integer noise both numbers matter, not only their
        quotient.

        >>> dp.DiscreteGaussian.from_scale(scale=20.0, sensitivity=2)
        DiscreteGaussian(sigma=20.0, sensitivity=2)
        """
        return cls(scale, sensitivity)


@dataclass(frozen=True, slots=True)
class DiscreteGaussianVector(Mechanism):
    """Adds the integer noise of ``DiscreteGaussian(sigma)`` to each of ``dimensions`` integer counts, which one record
    moves by a vector of integers of L2 norm at most ``sensitivity`` >= 1.

    No single vector is the worst one, so the two ends of a bound differ. The upper end comes from zCDP or, if sigma is
    above about 4, from a Gaussian of nearly the same deviation. The lower end comes from a vector along an axis, or
    from a vector of ones (docs/theory/discrete.md). In one dimension ``DiscreteGaussian`` is exact.

    Parameters
    ----------
    sigma : scale of the noise in units of the counts, in (0, inf).
    sensitivity : largest L2 norm of the change of all counts by one record, in [1, inf).
    dimensions : number of counts, an integer >= 1.

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> print(f"epsilon <= {dp.DiscreteGaussianVector(20.0, 2.0, 4).epsilon(1e-6):.3f}")
    epsilon <= 0.399
    """

    relations, sampled, symmetric, any_size = EVERY, EVERY, True, True
    sigma: float
    sensitivity: float
    dimensions: int

    def __post_init__(self) -> None:
        _set_mechanism_fields(self, sigma=_check.positive("sigma", self.sigma))
        s = _check.check_real_argument("sensitivity", self.sensitivity, "a number in [1, inf)")
        if not s >= 1:
            raise ValueError(f"sensitivity must be a number in [1, inf), got {self.sensitivity!r}")
        _set_mechanism_fields(
            self, sensitivity=s, dimensions=_check.check_count_argument("dimensions", self.dimensions)
        )

    def _to_canonical(self) -> tuple[Mechanism, int]:
        if self.dimensions == 1 and self.sensitivity <= _check.MAX_COUNT:
            return DiscreteGaussian(self.sigma, math.floor(self.sensitivity)), 1
        return self, 1


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(Mechanism):
    """Adds integer noise with P(n) proportional to exp(-|n| / scale) to an integer count that one record moves by at
    most ``sensitivity``.

    Parameters
    ----------
    scale : scale of the noise in units of the count, in (0, inf).
    sensitivity : largest change of the count by one record, an integer >= 1.

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> print(f"epsilon <= {dp.DiscreteLaplace(10.0).epsilon(0.0):.3f}")
    epsilon <= 0.101
    """

    relations, sampled, symmetric, any_size = EVERY, EVERY, True, True
    scale: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        _set_mechanism_fields(self, scale=_check.positive("scale", self.scale))
        _set_mechanism_fields(self, sensitivity=_check.check_count_argument("sensitivity", self.sensitivity))

    @classmethod
    def from_scale(cls, scale: float, sensitivity: int) -> DiscreteLaplace:
        """Returns the mechanism of noise of this ``scale``, in (0, inf), and ``sensitivity``, an integer >= 1.

        Raises ValueError for a number out of its range. This method equals the constructor, and exists because
        ``Gaussian`` and ``Laplace`` have a method of this name. For integer noise both numbers matter, not only their
        quotient.

        >>> dp.DiscreteLaplace.from_scale(scale=20.0, sensitivity=2)
        DiscreteLaplace(scale=20.0, sensitivity=2)
        """
        return cls(scale, sensitivity)


@dataclass(frozen=True, slots=True)
class MixtureOfGaussians(Mechanism):
    """Adds N(0, sigma^2 I) to a sum of vectors, where chance decides how long the vector of a record may be.

    A record contributes a vector of L2 norm at most ``sensitivities[i]`` with probability ``probabilities[i]``,
    independently of the other records. ``noise_multiplier`` is sigma.

    ``probabilities`` must add up to 1 within 1e-9, and are scaled to add up to 1. The account is exact. Let p_i be
    ``probabilities[i]``, c_i ``sensitivities[i]`` and N(c) the normal distribution N(c, sigma^2). The dominating pair
    is (sum p_i N(c_i), N(0)), reversed for "add", and (sum p_i N(c_i), sum p_i N(-c_i)) under "replace"
    (docs/theory/mixtures.md section 2).

    Parameters
    ----------
    noise_multiplier : standard deviation of the noise in units of ``sensitivities``, in (0, inf).
    sensitivities : L2 norms of the possible contributions, 1 to 1000 distinct numbers in [0, inf), not all 0.
    probabilities : their probabilities, as many numbers in (0, 1] that add up to 1.

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> print(f"epsilon <= {dp.MixtureOfGaussians(1.0, (0.0, 1.0), (0.9, 0.1)).epsilon(1e-6):.3f}")
    epsilon <= 2.182
    """

    relations, sampled, symmetric, any_size = EVERY, EVERY, False, True
    noise_multiplier: float
    sensitivities: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        _set_mechanism_fields(self, noise_multiplier=_check.positive("noise_multiplier", self.noise_multiplier))
        accepted = "a sequence of 1 to 1000 distinct numbers in [0, inf), not all 0"
        norms = _check.check_array_argument("sensitivities", self.sensitivities, accepted)
        distinct = norms.ndim == 1 and 0 < len(set(norms.tolist())) == len(norms) <= 1000
        if not (distinct and ((norms >= 0) & (norms < math.inf)).all() and norms.any()):
            raise ValueError(f"sensitivities must be {accepted}, got {self.sensitivities!r}")
        accepted = "a sequence of numbers in (0, 1], one for each of sensitivities, that add up to 1"
        shares = _check.check_array_argument("probabilities", self.probabilities, accepted)
        if shares.shape != norms.shape or not ((shares > 0) & (shares <= 1)).all():
            raise ValueError(f"probabilities must be {accepted}, got {self.probabilities!r}")
        total = math.fsum(shares)
        if abs(total - 1) > 1e-9:
            raise ValueError(f"probabilities must be {accepted}, got a sum of {total!r}")
        if abs(total - 1) > 2.0**-50:
            shares = shares / total
        pairs = sorted(zip((norms + 0.0).tolist(), shares.tolist(), strict=True))
        _set_mechanism_fields(self, sensitivities=tuple(c for c, _ in pairs), probabilities=tuple(p for _, p in pairs))


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
        _set_mechanism_fields(self, sampling_probability=q)

    @property
    def relations(self) -> frozenset[Neighbors]:  # type: ignore[override]
        """Relations with a proved dominating pair, which depend on the mechanism."""
        return self.mechanism.sampled

    def _to_canonical(self) -> tuple[Mechanism, int]:
        return self.mechanism._to_canonical() if self.sampling_probability == 1 else (self, 1)


@dataclass(frozen=True, slots=True)
class TruncatedPoissonSampled(Mechanism):
    """Runs ``mechanism`` on a Poisson sample, cut to ``batch_size`` records.

    The sample holds each of ``dataset_size`` records with ``sampling_probability``. If the sample is larger than
    ``batch_size``, ``mechanism`` runs on ``batch_size`` records drawn uniformly from the sample.

    ``dataset_size`` is public, and counts the record that is added or removed. The upper end comes from a mixture of a
    Poisson sample and a sample of fixed size. The lower end comes from a Poisson sample whose sampling probability is
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
        _set_mechanism_fields(self, sampling_probability=q, dataset_size=n, batch_size=b)

    @property
    def relations(self) -> frozenset[Neighbors]:  # type: ignore[override]
        """Relations under which Poisson samples have a dominating pair. The set is empty unless "replace" is a
        relation of the mechanism on the sample.

        The reason is that another record may take the place of the removed record in a cut sample.
        """
        return self.mechanism.sampled if "replace" in self.mechanism.sampled else frozenset()

    def _to_canonical(self) -> tuple[Mechanism, int]:
        if self.batch_size < self.dataset_size:
            return self, 1
        return PoissonSampled(self.mechanism, self.sampling_probability)._to_canonical()


@dataclass(frozen=True, slots=True)
class SampledWithReplacement(Mechanism):
    """Runs a ``Gaussian`` on the sum of ``sample_size`` records, each drawn uniformly from ``dataset_size``, so that a
    record may be drawn several times.

    The mechanism is accounted only under "replace" and "replace_special". The two ends of a bound differ, because the
    upper end assumes that the other records contribute the opposite of both exchanged records (docs/theory/mixtures.md
    section 6).

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
    unproved_reason = "adding or removing a record changes the size of the data set that the sample is drawn from"
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
        _set_mechanism_fields(self, dataset_size=n, sample_size=b)


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
    unproved_reason = "adding or removing a record changes the size of the data set that the sample is drawn from"
    mechanism: Mechanism
    sample_size: int
    dataset_size: int

    def __post_init__(self) -> None:
        _check_sampled_mechanism(self.mechanism, of_any_size=True)
        n = _check.check_count_argument("dataset_size", self.dataset_size)
        _set_mechanism_fields(
            self, dataset_size=n, sample_size=_check.check_count_argument("sample_size", self.sample_size, most=n)
        )

    @property
    def relations(self) -> frozenset[Neighbors]:  # type: ignore[override]
        """Relations with a proved dominating pair, all of which keep the number of records."""
        return SIZED & self.mechanism.sampled if "replace" in self.mechanism.sampled else frozenset()

    def _to_canonical(self) -> tuple[Mechanism, int]:
        return self.mechanism._to_canonical() if self.sample_size == self.dataset_size else (self, 1)


@dataclass(frozen=True, slots=True)
class RandomAllocation(Mechanism):
    """Runs ``mechanism`` in ``steps`` rounds, and each record takes part in ``selected`` of them ("balls in bins").

    The rounds of a record are drawn uniformly, and independently of the other records. If each epoch draws new rounds,
    several epochs are ``RandomAllocation(mechanism, steps, selected) * epochs``. If a record keeps its rounds in all
    epochs, see ``fixed``, which costs far more.

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
        _set_mechanism_fields(
            self, steps=steps, selected=_check.check_count_argument("selected", self.selected, most=steps)
        )

    @classmethod
    def fixed(cls, mechanism: Mechanism, steps: int, epochs: int, selected: int = 1) -> RandomAllocation:
        """Returns ``epochs`` epochs of ``steps`` rounds, in which a record keeps its ``selected`` rounds.

        The rounds are drawn once ("balls in bins" batches that are not shuffled again). ``mechanism`` must be a
        ``Gaussian`` unless ``epochs`` is 1. The contributions of a record to one of its rounds, in all epochs, are
        together one contribution that is sqrt(epochs) times as long. The contributions may depend on earlier outputs.
        The result is exact, except for the last digit of the noise multiplier, which is rounded down
        (docs/theory/allocation.md section 8).

        >>> RandomAllocation.fixed(Gaussian(2.0), steps=100, epochs=4)
        RandomAllocation(mechanism=Gaussian(noise_multiplier=1.0), steps=100, selected=1)
        """
        epochs = _check.check_count_argument("epochs", epochs)
        if epochs == 1:
            return cls(mechanism, steps, selected)
        if not isinstance(mechanism, Gaussian):
            raise ValueError(
                f"mechanism must be a Gaussian where epochs is more than 1, got {mechanism!r}: of no other noise it is "
                f"proved here what fixed bins come to"
            )
        sigma = mechanism.noise_multiplier
        shared = sigma / math.sqrt(epochs)
        while Fraction(shared) ** 2 * epochs > Fraction(sigma) ** 2:
            shared = math.nextafter(shared, 0.0)
        return cls(Gaussian(max(shared, math.ulp(0.0))), steps, selected)

    @property
    def relations(self) -> frozenset[Neighbors]:  # type: ignore[override]
        """Relations with a proved dominating pair, which depend on the mechanism."""
        return self.mechanism.sampled - {"replace"}

    def _to_canonical(self) -> tuple[Mechanism, int]:
        inner, count = self.mechanism._to_canonical()
        return (inner, count * self.steps) if self.selected == self.steps else (self, 1)


@dataclass(frozen=True, slots=True)
class TreeAggregation(Mechanism):
    """Releases prefix sums of ``steps`` vectors by the binary tree mechanism, for one epoch.

    Each record contributes to one step. Every node of the tree is released with noise N(0, sigma^2 I).
    ``noise_multiplier`` is sigma over the bound on the L2 norm of a record's contribution.

    A record is in at most k = floor(log2(steps)) + 1 nodes, and a record of the first step is in exactly k. So the
    account is the account of k Gaussians (docs/theory/closed-forms.md section 6). If a restart makes several trees over
    disjoint steps, take the deepest tree. Source: Dwork, Naor, Pitassi and Rothblum (2010); Kairouz et al. (2021),
    Theorem 4.1.

    The account assumes that the other records keep their steps when one record is added, removed or replaced. Suppose
    that batches are cut by position, for example from a shuffled list. Then replacing a record leaves the others in
    their steps, but adding or removing a record shifts all records behind it. So "add_or_remove" is refused unless
    ``own_steps`` is True. This argument says that the step of each record does not depend on the other records. So the
    step must be drawn independently for each record, or be known from the record. A step may then have any number of
    records.

    Parameters
    ----------
    noise_multiplier : the noise over the norm bound, > 0.
    steps : the number of steps, an integer >= 1.
    own_steps : whether the step of each record does not depend on the other records.

    >>> tree = dp.TreeAggregation(5.0, steps=1000)
    >>> tree.epsilon(1e-6, neighbors="replace").upper == (dp.Gaussian(2.5) * 10).epsilon(1e-6).upper
    True

    Raises ValueError for an argument out of its range.
    """

    noise_multiplier: float
    steps: int
    own_steps: bool = False
    symmetric, any_size = True, True
    unproved_reason = (
        "batches by position shift all records behind the one that is added or removed (own_steps=True says that "
        "the step of each record does not depend on which other records there are)"
    )

    def __post_init__(self) -> None:
        _set_mechanism_fields(self, noise_multiplier=_check.positive("noise_multiplier", self.noise_multiplier))
        _set_mechanism_fields(self, steps=_check.check_count_argument("steps", self.steps))
        if not isinstance(self.own_steps, bool):
            raise TypeError(f"own_steps must be True or False, got {self.own_steps!r}")

    @property
    def relations(self) -> frozenset[Neighbors]:  # type: ignore[override]
        """Relations with a proved dominating pair, which depend on ``own_steps``."""
        return EVERY if self.own_steps else SIZED

    @property
    def gaussians(self) -> tuple[Gaussian, int]:
        """A Gaussian with a count. So many releases of this Gaussian have the same account under ``relations``."""
        return Gaussian(self.noise_multiplier), self.steps.bit_length()

    def _to_canonical(self) -> tuple[Mechanism, int]:
        return self.gaussians if self.own_steps else (self, 1)


def banded_factorization(
    noise_multiplier: float, *, bands: int, steps: int, sampling_probability: float
) -> Composition:
    """Returns the charge of DP-SGD with noise that a banded matrix correlates (BandMF), on cyclic Poisson batches.

    The release is C x + z. Row t of x is the sum of the clipped gradients of step t. The noise z is normal, and its
    standard deviation is ``noise_multiplier`` times the bound on a record's norm. C[i, j] is 0 unless
    0 <= i - j < ``bands``, and the columns of C have L2 norm at most 1. The records are divided into ``bands`` groups,
    and the group of a record does not depend on the other records. Step t takes a Poisson sample, with
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
        raise ValueError(f"mechanism must not be a mixture but in a Poisson sample, got {mechanism!r}")
    if isinstance(mechanism, TreeAggregation):
        raise ValueError(
            f"mechanism must not be a whole epoch, got {mechanism!r}: a tree has all of its steps' records"
        )
    if isinstance(mechanism, RandomizedResponse):
        raise ValueError(
            f"mechanism must have an output without the record, got {mechanism!r}: randomised response compares two "
            f"answers of one person, so there is nothing for a sample to leave out"
        )
    if not mechanism.sampled:
        raise ValueError(f"mechanism must be one that runs on a sample, got {mechanism!r}")
