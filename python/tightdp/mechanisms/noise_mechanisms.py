"""Mechanisms that add noise to a sum: normal and Laplace noise, real or integer, alone or in a tree."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .._support import _check
from .._support.rounded_division import divide_rounding_down
from ..composition import Mechanism
from ..options import EVERY, SIZED, Neighbors
from .checked_fields import set_mechanism_fields


def _divide_scale_of_mechanism(scale: float, sensitivity: float) -> float:
    """Returns the checked ``scale``, divided by the checked ``sensitivity`` and rounded down."""
    return divide_rounding_down(_check.positive("scale", scale), _check.positive("sensitivity", sensitivity))


@dataclass(frozen=True, slots=True)
class Gaussian(Mechanism):
    """Adds N(0, sigma^2 I) to a sum of vectors. ``noise_multiplier`` is sigma over the bound on the vectors' L2 norm.

    Parameters
    ----------
    noise_multiplier : deviation of the noise divided by the largest L2 norm of one record's contribution, in (0, inf).

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> print(f"epsilon <= {(dp.Gaussian(2.0) * 3).epsilon(1e-6):.3f}")
    epsilon <= 4.152
    """

    relations, sampled_relations, symmetric, any_size = EVERY, EVERY, True, True
    noise_multiplier: float

    def __post_init__(self) -> None:
        set_mechanism_fields(self, noise_multiplier=_check.positive("noise_multiplier", self.noise_multiplier))

    @classmethod
    def from_scale(cls, scale: float, sensitivity: float) -> Gaussian:
        """Returns the mechanism for a standard deviation and a sensitivity in the units of the data.

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
    noise_multiplier : scale of the noise divided by the largest L1 norm of one record's contribution, in (0, inf).

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> print(f"epsilon <= {dp.Laplace(2.0).epsilon(0.0):.3f}")
    epsilon <= 0.501
    """

    relations, sampled_relations, symmetric, any_size = EVERY, EVERY, True, True
    noise_multiplier: float

    def __post_init__(self) -> None:
        set_mechanism_fields(self, noise_multiplier=_check.positive("noise_multiplier", self.noise_multiplier))

    @classmethod
    def from_scale(cls, scale: float, sensitivity: float) -> Laplace:
        """Returns the mechanism for a scale and a sensitivity in the units of the data.

        Parameters
        ----------
        scale : scale of the noise, in (0, inf).
        sensitivity : largest L1 norm of one record's contribution, in (0, inf).

        Raises ValueError for a number out of its range. The quotient is rounded down, so no bound becomes too small.

        >>> dp.Laplace.from_scale(scale=50.0, sensitivity=25.0)
        Laplace(noise_multiplier=2.0)
        """
        return cls(_divide_scale_of_mechanism(scale, sensitivity))


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Mechanism):
    """Adds integer noise, with P(n) proportional to exp(-n^2 / (2 sigma^2)), to an integer count. One record moves
    the count by at most ``sensitivity``.

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

    relations, sampled_relations, symmetric, any_size = EVERY, EVERY, True, True
    sigma: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        set_mechanism_fields(self, sigma=_check.positive("sigma", self.sigma))
        set_mechanism_fields(self, sensitivity=_check.check_count_argument("sensitivity", self.sensitivity))

    @classmethod
    def from_scale(cls, scale: float, sensitivity: int) -> DiscreteGaussian:
        """Returns the mechanism of noise of this ``scale``, in (0, inf), and ``sensitivity``, an integer >= 1.

        Raises ValueError for a number out of its range. This method does the same as the constructor. It exists because
        ``Gaussian`` and ``Laplace`` have it too. For integer noise both numbers matter, not only their quotient.

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
    from a vector of ones (docs/theory/discrete.md). In one dimension use ``DiscreteGaussian``, which is exact.

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

    relations, sampled_relations, symmetric, any_size = EVERY, EVERY, True, True
    sigma: float
    sensitivity: float
    dimensions: int

    def __post_init__(self) -> None:
        set_mechanism_fields(self, sigma=_check.positive("sigma", self.sigma))
        s = _check.check_real_argument("sensitivity", self.sensitivity, "a number in [1, inf)")
        if not s >= 1:
            raise ValueError(f"sensitivity must be a number in [1, inf), got {self.sensitivity!r}")
        set_mechanism_fields(self, sensitivity=s, dimensions=_check.check_count_argument("dimensions", self.dimensions))

    def _to_canonical_mechanism(self) -> tuple[Mechanism, int]:
        if self.dimensions == 1 and self.sensitivity <= _check.MAX_COUNT:
            return DiscreteGaussian(self.sigma, math.floor(self.sensitivity)), 1
        return self, 1


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(Mechanism):
    """Adds integer noise, with P(n) proportional to exp(-|n| / scale), to an integer count. One record moves the
    count by at most ``sensitivity``.

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

    relations, sampled_relations, symmetric, any_size = EVERY, EVERY, True, True
    scale: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        set_mechanism_fields(self, scale=_check.positive("scale", self.scale))
        set_mechanism_fields(self, sensitivity=_check.check_count_argument("sensitivity", self.sensitivity))

    @classmethod
    def from_scale(cls, scale: float, sensitivity: int) -> DiscreteLaplace:
        """Returns the mechanism of noise of this ``scale``, in (0, inf), and ``sensitivity``, an integer >= 1.

        Raises ValueError for a number out of its range. This method does the same as the constructor. It exists because
        ``Gaussian`` and ``Laplace`` have it too. For integer noise both numbers matter, not only their quotient.

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
    probabilities : the probabilities of these norms, numbers in (0, 1] that add up to 1.

    Raises
    ------
    ValueError or TypeError that names the parameter and its range.

    >>> print(f"epsilon <= {dp.MixtureOfGaussians(1.0, (0.0, 1.0), (0.9, 0.1)).epsilon(1e-6):.3f}")
    epsilon <= 2.182
    """

    relations, sampled_relations, symmetric, any_size = EVERY, EVERY, False, True
    noise_multiplier: float
    sensitivities: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        set_mechanism_fields(self, noise_multiplier=_check.positive("noise_multiplier", self.noise_multiplier))
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
        set_mechanism_fields(self, sensitivities=tuple(c for c, _ in pairs), probabilities=tuple(p for _, p in pairs))


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
    ``own_steps`` is True. This argument says that the step of each record does not depend on the other records. The
    step is then drawn independently for each record, or known from the record. A step may then have any number of
    records.

    Parameters
    ----------
    noise_multiplier : deviation of the noise divided by the norm bound, > 0.
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
    unproved_mechanism_reason = (
        "batches by position shift all records behind the one that is added or removed (own_steps=True says that "
        "the step of each record does not depend on which other records there are)"
    )

    def __post_init__(self) -> None:
        set_mechanism_fields(self, noise_multiplier=_check.positive("noise_multiplier", self.noise_multiplier))
        set_mechanism_fields(self, steps=_check.check_count_argument("steps", self.steps))
        set_mechanism_fields(self, own_steps=_check.check_flag_argument("own_steps", self.own_steps))

    @property
    def relations(self) -> frozenset[Neighbors]:  # type: ignore[override]
        """Relations with a proved dominating pair, which depend on ``own_steps``."""
        return EVERY if self.own_steps else SIZED

    @property
    def gaussians(self) -> tuple[Gaussian, int]:
        """A Gaussian and a number k. Under ``relations``, k such Gaussians have the account of this mechanism."""
        return Gaussian(self.noise_multiplier), self.steps.bit_length()

    def _to_canonical_mechanism(self) -> tuple[Mechanism, int]:
        return self.gaussians if self.own_steps else (self, 1)
