"""A mechanism that users define by the distribution of its privacy loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core import check_arithmetic
from .._support import _check
from ..composition import Mechanism
from ..options import EVERY, Neighbors
from .checked_fields import set_mechanism_fields
from .loss_tables import (
    TOLERANCE,
    CompletePair,
    LossTable,
    bound_hidden_mass_of_loss_table,
    bound_loss_table,
    bound_loss_tables_from_below,
)

Relation = Literal["add_or_remove", "replace", "any"]
_MIRRORED_TOLERANCE = 1e-6
"""Largest accepted distance between the privacy profiles of a ``mirrored`` pair and of its reverse."""
_ATOM_ERROR = 1e-10
"""Largest error of the loss of the atom (a loss with a mass of its own) that ``bound_loss_tables_from_below`` puts
between two tables."""


@dataclass(frozen=True, slots=True)
class PrivacyLoss(Mechanism):
    """A dominating pair given by the distribution of its privacy loss Y = log dP/dQ under P.

    P is the output's distribution with the record. Q is the distribution without the record, or with another record in
    its place. ``relation`` names the neighbouring relation for which the pair dominates. Questions about relations that
    do not follow from it are refused. ``losses`` ascend strictly and are within ``loss_error`` of the truth.
    ``probabilities`` are P's masses at the losses, ``infinity`` is P's mass where Q has none, and ``minus_infinity`` is
    Q's mass where P has none. ``mirrored`` says that (Q, P) has the same privacy profile as (P, Q), so that "add" and
    "remove" agree. ``optimistic`` is for lower bounds. It is None, or (losses, probabilities, infinity) of a pair that
    the true pair dominates. These losses are within ``loss_error`` of the truth too. With None, lower bounds come from
    the pair itself.

    These numbers stand for every pair of distributions that agrees with them, and bounds hold for all of these pairs.
    Such a pair may have any losses within ``loss_error`` of ``losses``, and the rest of Q may lie where P has no mass.
    ``minus_infinity`` is taken as exact if it is within 1e-9 of the largest mass that the losses allow. If
    ``probabilities`` and ``infinity`` add up to less than 1, the rest of P may have an infinite loss.

    The numbers are checked. P must add up to 1 and Q to at most 1, each within 1e-9. The pair must dominate
    ``optimistic``, and a ``mirrored`` pair must have the same privacy profile as its reverse. Nothing can check that
    the pair dominates a mechanism. The bounds hold for a mechanism only if the pair dominates it. Build a
    ``PrivacyLoss`` with ``from_pmf``, ``from_distributions`` or ``from_cdf``.

    Raises ValueError, which names the argument, if one of these checks fails.

    Three outcomes that have probabilities p with the record and q without it:

    >>> loss = dp.PrivacyLoss.from_distributions(p=[0.5, 0.3, 0.2], q=[0.4, 0.35, 0.25])
    >>> f"{(loss * 20).epsilon(1e-3):.2f}"
    '2.75'
    """

    losses: tuple[float, ...]
    probabilities: tuple[float, ...]
    infinity: float = 0.0
    minus_infinity: float = 0.0
    relation: Relation = "add_or_remove"
    mirrored: bool = False
    loss_error: float = 0.0
    optimistic: tuple[tuple[float, ...], tuple[float, ...], float] | None = None
    dominating: CompletePair = field(init=False, repr=False, compare=False)
    """A complete pair for upper bounds, which dominates every pair that these numbers stand for."""
    dominated: CompletePair = field(init=False, repr=False, compare=False)
    """A complete pair for lower bounds. Every pair that these numbers stand for dominates it."""

    def __post_init__(self) -> None:
        check_arithmetic()
        losses, masses = _check_privacy_loss_table("losses", self.losses, "probabilities", self.probabilities)
        infinity = _check.closed_unit("infinity", self.infinity)
        hidden = _check.closed_unit("minus_infinity", self.minus_infinity)
        _check.check_choice_argument("relation", self.relation, get_args(Relation))
        set_mechanism_fields(self, mirrored=_check.check_flag_argument("mirrored", self.mirrored))
        if abs(math.fsum((*masses, infinity)) - 1) > TOLERANCE:
            raise ValueError(f"probabilities and infinity must add up to 1, got {math.fsum((*masses, infinity))!r}")
        error = _check.nonnegative("loss_error", self.loss_error)
        if hidden > bound_hidden_mass_of_loss_table(losses, masses, error)[1] + TOLERANCE:
            raise ValueError("probabilities must be P's: Q's, p e^-loss, and minus_infinity add up to more than 1")
        set_mechanism_fields(self, losses=tuple(losses.tolist()), probabilities=tuple(masses.tolist()))
        set_mechanism_fields(self, infinity=infinity, minus_infinity=hidden, loss_error=error)
        dominating, dominated = bound_loss_table(LossTable(losses, masses, infinity), hidden, error)
        if self.optimistic is not None:
            if not (isinstance(self.optimistic, (tuple, list)) and len(self.optimistic) == 3):
                raise TypeError(f"optimistic must be losses, probabilities and an infinity, got {self.optimistic!r}")
            y, p = _check_privacy_loss_table(
                "losses of optimistic", self.optimistic[0], "its probabilities", self.optimistic[1]
            )
            all_but = _check.closed_unit("the infinity of optimistic", self.optimistic[2])
            if abs(math.fsum((*p, all_but)) - 1) > TOLERANCE:
                raise ValueError("optimistic must have probabilities and an infinity that add up to 1")
            if bound_hidden_mass_of_loss_table(y, p, error)[1] < -TOLERANCE:
                raise ValueError("optimistic must have P's probabilities: Q's, p e^-loss, add up to more than 1")
            set_mechanism_fields(self, optimistic=(tuple(y.tolist()), tuple(p.tolist()), all_but))
            dominated = bound_loss_table(LossTable(y, p, all_but), None, error)[1]
            if (
                _compute_excess_of_privacy_losses((y, p, all_but), (losses, masses, infinity))
                > TOLERANCE + 2 * self.loss_error
            ):
                raise ValueError("optimistic must be a pair that losses and probabilities dominate")
        elif self.mirrored:
            with np.errstate(over="ignore", under="ignore"):
                other = -losses[::-1], (masses * np.exp(-losses))[::-1], hidden
            here = losses, masses, infinity
            if (
                max(_compute_excess_of_privacy_losses(here, other), _compute_excess_of_privacy_losses(other, here))
                > _MIRRORED_TOLERANCE + 2 * self.loss_error
            ):
                raise ValueError("mirrored must be False: (Q, P) has another curve than (P, Q)")
        set_mechanism_fields(self, dominating=dominating, dominated=dominated)

    any_size = True

    @property
    def relations(self) -> frozenset[Neighbors]:  # type: ignore[override]
        """Relations for which the pair dominates. The argument ``relation`` names them."""
        given: dict[Relation, frozenset[Neighbors]] = {"any": EVERY, "replace": frozenset(("replace",))}
        return given.get(self.relation, EVERY - {"replace"})

    @property
    def sampled_relations(self) -> frozenset[Neighbors]:  # type: ignore[override]
        """Relations under which the mechanism on a Poisson sample has a dominating pair.

        "replace" is left out, because the pair does not say what the output's distribution without the record is.
        """
        return self.relations - {"replace"}

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        """True if "add" and "remove" have the same privacy profile, as ``mirrored`` says."""
        return self.mirrored

    def _sort_key(self) -> tuple[Any, ...]:
        values = {**self._list_parameters(), "optimistic": self.optimistic or ()}
        return type(self).__name__, *values.values()

    @classmethod
    def from_pmf(
        cls,
        losses: ArrayLike,
        probabilities: ArrayLike,
        *,
        infinity: float = 0.0,
        minus_infinity: float | None = None,
        relation: Relation = "add_or_remove",
        mirrored: bool = False,
        loss_error: float = 0.0,
    ) -> PrivacyLoss:
        """Returns a ``PrivacyLoss`` with finitely many ``losses``, in any order, and their ``probabilities`` under P.

        Equal losses are merged, and losses of probability 0 are dropped.

        Q has the mass p e^{-y} at a loss y of probability p. ``minus_infinity`` defaults to 1 minus the sum of these
        masses, rounded up. So the default is never 0. Pass 0.0 if Q has no more mass.

        Parameters
        ----------
        losses : finite numbers, in nats.
        probabilities : one for each loss, in [0, 1]. Together with ``infinity`` they add up to 1.
        infinity, minus_infinity, relation, mirrored, loss_error : as for the class.

        Raises ValueError for arrays of different lengths, or for probabilities that do not add up to 1.

        A coin that is turned over with probability 1/4 has the losses log 3 and -log 3:

        >>> import math
        >>> loss = dp.PrivacyLoss.from_pmf([math.log(3), -math.log(3)], [0.75, 0.25], minus_infinity=0.0, mirrored=True)
        >>> f"{loss.epsilon(0.0):.4f}"
        '1.0987'
        """
        y, p = _check_privacy_loss_vector("losses", losses), _check_privacy_loss_vector("probabilities", probabilities)
        if len(y) != len(p):
            raise ValueError(f"probabilities must have one entry for each loss, got {len(p)} for {len(y)}")
        if (p < 0).any():
            raise ValueError("probabilities must be numbers in [0, 1]")
        merged, where = np.unique(y[p > 0], return_inverse=True)
        masses = np.zeros(len(merged))
        np.add.at(masses, where, p[p > 0])
        if minus_infinity is None:
            most = bound_hidden_mass_of_loss_table(merged, masses, _check.nonnegative("loss_error", loss_error))[1]
            minus_infinity = min(max(most, 0.0), 1.0)
        table = tuple(merged.tolist()), tuple(masses.tolist())
        return cls(*table, infinity, minus_infinity, relation, mirrored, loss_error)

    @classmethod
    def from_distributions(
        cls, p: ArrayLike, q: ArrayLike, *, relation: Relation = "add_or_remove", mirrored: bool = False
    ) -> PrivacyLoss:
        """Returns the ``PrivacyLoss`` of finitely many outcomes, from their probabilities under P and under Q.

        Parameters
        ----------
        p, q : the probabilities of the outcomes with and without the record, in [0, 1]; each adds up to 1.
        relation, mirrored : as for the class.

        Raises ValueError for arrays of different lengths, or for probabilities that do not add up to 1.

        >>> loss = dp.PrivacyLoss.from_distributions(p=[0.75, 0.25], q=[0.25, 0.75], mirrored=True)
        >>> f"{loss.delta(0.5):.4f}"
        '0.3379'
        """
        ps, qs = _check_privacy_loss_vector("p", p), _check_privacy_loss_vector("q", q)
        if len(ps) != len(qs):
            raise ValueError(f"q must have one entry for each outcome, got {len(qs)} for {len(ps)}")
        for name, values in (("p", ps), ("q", qs)):
            if (values < 0).any() or abs(math.fsum(values) - 1) > TOLERANCE:
                raise ValueError(f"{name} must be non-negative and add up to 1")
        both = (ps > 0) & (qs > 0)
        log_p, log_q = np.log(ps[both]), np.log(qs[both])
        return cls.from_pmf(
            log_p - log_q,
            ps[both],
            infinity=min(1.0, math.fsum(ps[qs == 0])),
            minus_infinity=min(1.0, math.fsum(qs[ps == 0])),
            relation=relation,
            mirrored=mirrored,
            loss_error=float(2.0**-51 * np.max(1 + np.abs(log_p) + np.abs(log_q), initial=0.0)),
        )

    @classmethod
    def from_cdf(
        cls,
        cdf: Callable[[NDArray[np.float64]], ArrayLike],
        *,
        low: float,
        high: float,
        infinity: float = 0.0,
        points: int = 1 << 16,
        error: float = 2.0**-50,
        relation: Relation = "add_or_remove",
        mirrored: bool = False,
    ) -> PrivacyLoss:
        """Returns a ``PrivacyLoss`` with the distribution function ``cdf(y)`` = P[Y <= y], which is called once with an
        array.

        The bounds assume that every value of ``cdf`` is within ``error`` of the truth, and that P[Y = inf] is
        ``infinity``. ``cdf`` is called with ``points`` evenly spaced arguments from ``low`` to ``high``. The bounds
        hold however the loss is distributed between neighbouring arguments. For upper bounds mass is moved up to the
        next argument, and mass beyond ``high`` to infinity. For lower bounds mass is moved down to the argument before.
        In a composition of k such losses, epsilon thus changes by at most k spacings, and delta by at most k (P[Y >
        high] + error). Pass ``mirrored=True`` if (Q, P) has the same privacy profile. Otherwise the curve of (Q, P) is
        known only up to k spacings.

        Raises ValueError if ``cdf`` returns numbers outside [0, 1], or if it does not return one value for each
        argument.

        The loss of a Gaussian of noise multiplier 2 is normal with mean 1/8 and deviation 1/2:

        >>> import numpy as np
        >>> from statistics import NormalDist
        >>> cdf = np.vectorize(NormalDist(0.125, 0.5).cdf)
        >>> loss = dp.PrivacyLoss.from_cdf(cdf, low=-4, high=5, mirrored=True)
        >>> 0 <= loss.epsilon(1e-5).upper - dp.Gaussian(2.0).epsilon(1e-5).upper < 1e-3
        True
        """
        low, high = _check.check_real_argument("low", low), _check.check_real_argument("high", high)
        if not low < high:
            raise ValueError(f"high must be a number above low={low!r}, got {high!r}")
        infinity = _check.closed_unit("infinity", infinity)
        points = _check.check_count_argument("points", points, least=2, most=1 << 22)
        error = _check.nonnegative("error", error)
        y = np.linspace(low, high, points)
        values = _check.check_array_argument("what cdf returns", cdf(y), "numbers in [0, 1]")
        if values.shape != y.shape:
            raise ValueError(f"cdf must return one value for each argument, got shape {values.shape} for {y.shape}")
        if not ((values >= -error) & (values <= 1 + error)).all():  # also false for NaN
            raise ValueError("cdf must return numbers in [0, 1]")
        # ``above`` and ``below`` bound P[Y > y]. Each is made non-increasing and stays a bound. The subtraction from 1
        # and the addition of ``error`` each have a relative rounding error of 2^-53.
        tail, outward = 1 - values, 2.0**-51
        above = np.maximum.accumulate(np.clip((tail + error) * (1 + outward), infinity, 1.0)[::-1])[::-1]
        below = np.minimum.accumulate(np.clip((tail * (1 - outward) - error) * (1 - outward), infinity, 1.0))
        raised = -np.diff(np.concatenate(([1.0], above)))
        upper = cls.from_pmf(y, raised, infinity=float(above[-1]), relation=relation)
        masses = -np.diff(np.append(below, infinity))
        from_below = LossTable(y[masses > 0], masses[masses > 0], infinity)
        # Q has less mass if losses rise and P stays. So ``from_above`` bounds the curve of (Q, P) from below.
        from_above = LossTable(np.asarray(upper.losses), np.asarray(upper.probabilities), 0.0)
        found = bound_loss_tables_from_below(from_below, from_above, 0.0, _ATOM_ERROR)
        known = (tuple(found.losses.tolist()), tuple(found.masses.tolist()), found.infinity)
        return replace(upper, mirrored=mirrored, optimistic=known, loss_error=found.slack)


_Curve = tuple[NDArray[np.float64], NDArray[np.float64], float]


def _compute_excess_of_privacy_losses(one: _Curve, other: _Curve) -> float:
    """Returns the largest delta_one(eps) - delta_other(eps), for eps among the losses of both pairs below 700."""
    at = np.concatenate((one[0], other[0]))
    at = at[np.abs(at) < 700]
    return float(
        np.max(
            _evaluate_curve_of_privacy_losses(one, at) - _evaluate_curve_of_privacy_losses(other, at),
            initial=one[2] - other[2],
        )
    )


def _evaluate_curve_of_privacy_losses(pair: _Curve, at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns delta at each eps in ``at``, for ascending losses y with masses p.

    Delta is infinity + sum p (1 - e^{eps - y})_+, or 1 - e^eps if this is larger.
    """
    losses, masses, infinity = pair
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        hidden = np.exp(np.log(masses) - losses)
    above = np.searchsorted(losses, at, side="right")
    p, q = (np.append(np.cumsum(values[::-1])[::-1], 0.0)[above] for values in (masses, hidden))
    with np.errstate(over="ignore", invalid="ignore"):
        reached = np.where(q > 0, np.exp(at) * q, 0.0)
    return np.maximum(infinity + p - reached, -np.expm1(np.minimum(at, 0.0)))


def _check_privacy_loss_table(
    name: str, losses: Any, other: str, masses: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns losses and masses as arrays. Raises ValueError unless losses ascend strictly and masses are positive."""
    y, p = _check_privacy_loss_vector(name, losses), _check_privacy_loss_vector(other, masses)
    if len(y) != len(p):
        raise ValueError(f"{other} must have one entry for each loss, got {len(p)} for {len(y)}")
    if not (np.diff(y) > 0).all():
        raise ValueError(f"{name} must be strictly ascending")
    if not (p > 0).all():
        raise ValueError(f"{other} must be positive numbers")
    return y, p


def _check_privacy_loss_vector(name: str, values: Any) -> NDArray[np.float64]:
    """Returns ``values`` as an array. Raises ValueError unless they are a one-dimensional array of finite numbers."""
    array = _check.check_array_argument(name, values, "a sequence of numbers")
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite numbers")
    return array
