"""Budgets, which decide whether a run may make a release, and state the charge of the whole run.

A fixed plan lists every release in advance. Caps let the algorithm choose releases adaptively, within fixed totals. The
gate makes all releases, and asks the budget before each of them. The charge covers the whole plan or the caps, even if
the run makes fewer releases. If past outputs decide on later releases, the caps bound the privacy loss
(docs/theory/caps.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from .._support import _check
from ..accounting.questions.calibration import calibrate
from ..accounting.running_accounts.filter_costs import GaussianFilterCosts
from ..accounting.running_accounts.filters import CappedFilter, PrivacyFilter
from ..composition import Composition
from ..mechanisms import ApproximateDP, Gaussian, Mechanism

ROUNDING = 1e-12
"""Relative amount by which the charge exceeds the cap that a caller asked for. Releases may use half of this excess. So
releases whose exact costs add up to the cap are accepted in spite of rounding (docs/theory/caps.md, Rounding)."""
EPSILON = _check.build_argument_check("(0, 1e6]")
"""Check of the range of epsilon, in nats, that training accepts. A larger epsilon protects nothing, and its calibration
would take up to a minute."""


class Target(NamedTuple):
    """The guarantee that a caller asked for: (epsilon, delta), or delta alone if the algorithm has its own noise.

    Fields
    ------
    epsilon : in (0, 1e6], in nats, or None
    delta : in (0, 1)
    beside : a composition, or None

    ``from_arguments`` raises ValueError for a number out of its range.

    >>> from tightdp.train import Target
    >>> Target.from_arguments(1.0, 1e-6)
    Target(epsilon=1.0, delta=1e-06, beside=None)
    """

    epsilon: float | None
    delta: float
    beside: Composition | None = None
    """Further releases, which the guarantee must cover together with the plan's releases, or None."""

    @classmethod
    def from_arguments(cls, epsilon: float | None, delta: float | None) -> Target:
        """Returns the target of an estimator's arguments ``epsilon`` and ``delta``.

        Raises ValueError if ``delta`` is None, or if a number is out of its range.
        """
        if delta is None:
            raise ValueError("delta must be given, a number in (0, 1)")
        return cls(None if epsilon is None else EPSILON("epsilon", epsilon), _check.open_unit("delta", delta))


class ReleaseBudget(Protocol):
    """A budget that the gate asks before every release."""

    def spend(self, mechanism: Mechanism) -> None:
        """Pays for one release. If the budget does not cover the release, raises ``BudgetExceeded`` and pays nothing.

        The call is atomic among threads."""

    def charge(self) -> Composition:
        """Returns the charge of the whole run, which is fixed before the run starts."""


class Caps(CappedFilter):
    """A budget for adaptively chosen Gaussians up to a total, and for every other mechanism up to a count.

    ``gaussian`` caps the sum of 1/noise_multiplier^2. ``others`` lists mechanisms and their counts. Any adaptive use of
    the caps is dominated by one Gaussian(1/sqrt(gaussian)) composed with all of ``others`` (docs/theory/caps.md). If
    ``others`` lacks a mechanism on a Poisson sample, the charge is that of the same mechanism on all records, which
    dominates the sampled mechanism.

    Parameters
    ----------
    gaussian : the cap on the sum of 1/noise_multiplier^2, >= 0.
    others : pairs (mechanism, count).

    ``spend`` raises ``BudgetExceeded`` for a release that the caps do not cover.

    >>> from tightdp.train import Caps
    >>> caps = Caps(0.01, [(dp.PureDP(0.1), 5)])
    >>> caps.spend(dp.Gaussian(20.0))
    >>> caps.can_spend(dp.Gaussian(20.0), count=3), caps.can_spend(dp.Gaussian(20.0), count=4)
    (True, False)
    >>> caps.charge().epsilon(1e-6) > dp.Gaussian(10.0).epsilon(1e-6)
    True
    """

    def __init__(self, gaussian: float, others: Iterable[tuple[Mechanism, int]] = ()) -> None:
        parts = [(mechanism, count) for mechanism, count in others if count]
        super().__init__(GaussianFilterCosts(gaussian * (1 + ROUNDING / 2)), parts)
        total = [(Gaussian((gaussian * (1 + ROUNDING)) ** -0.5), 1)] if gaussian > 0 else []
        self._charge = Composition([*parts, *total])

    def charge(self) -> Composition:
        """Returns the composition that dominates every run within the caps."""
        return self._charge


class FixedPlan(Caps):
    """A budget that allows each mechanism of a composition as often as it occurs in the composition, in any order.

    Parameters
    ----------
    releases : a mechanism or a composition.

    ``spend`` raises ``BudgetExceeded`` for any other release.

    >>> from tightdp.train import FixedPlan
    >>> plan = FixedPlan(dp.Gaussian(50.0) * 40)
    >>> plan.can_spend(dp.Gaussian(50.0), count=40), plan.can_spend(dp.Gaussian(49.0))
    (True, False)
    """

    def __init__(self, releases: Mechanism | Composition) -> None:
        super().__init__(0.0, releases._to_composition().parts)


def split_gaussians_from_gate_charge(charge: Composition) -> tuple[float, list[tuple[Mechanism, int]]]:
    """Returns the sum of 1/noise_multiplier^2 over the Gaussians on all records, and a list of the other mechanisms
    with their counts."""
    squares = math.fsum(k / m.noise_multiplier**2 for m, k in charge.parts if isinstance(m, Gaussian))
    return squares, [(m, k) for m, k in charge.parts if not isinstance(m, Gaussian)]


class BudgetWithinCaps:
    """A plan's own budget, and caps that the plan must not exceed. The budget and the caps must both cover a release,
    and the run is charged the caps."""

    def __init__(self, plan: ReleaseBudget, caps: ReleaseBudget) -> None:
        self._plan, self._caps = plan, caps

    def spend(self, mechanism: Mechanism) -> None:
        if self._caps is not self._plan:
            self._caps.spend(mechanism)
        self._plan.spend(mechanism)

    def charge(self) -> Composition:
        return self._caps.charge()


class FilterBudget(PrivacyFilter):
    """A budget for any adaptive sequence of releases within (``epsilon``, ``delta``), by a Renyi filter."""

    def charge(self) -> Composition:
        return ApproximateDP(self.epsilon, self.delta) * 1


def check_noise_against_gate_budget(noise_multiplier: float | None, target: Target) -> None:
    """Raises ValueError if both a noise multiplier and an epsilon are given."""
    if noise_multiplier is not None and target.epsilon is not None:
        raise ValueError("epsilon and noise_multiplier exclude each other: each determines the other. Leave one out")


def resolve_noise_from_gate_budget(
    plan: Callable[[float], Mechanism | Composition], noise_multiplier: float | None, target: Target
) -> float:
    """Returns the noise multiplier of a run.

    This is the algorithm's own ``noise_multiplier`` if there is one. Otherwise it is the smallest noise multiplier for
    which the releases ``plan(noise_multiplier)`` and ``target.beside`` together meet the target. Raises ValueError if
    the algorithm's own noise multiplier is not a positive number."""
    own = None if noise_multiplier is None else _check.positive("noise_multiplier", noise_multiplier)
    if target.epsilon is None:
        if own is None:
            raise ValueError("epsilon must be given, or a noise_multiplier: each determines the other")
        return own
    check_noise_against_gate_budget(own, target)
    beside = target.beside
    whole = plan if beside is None else lambda noise: plan(noise)._to_composition() + beside
    return float(calibrate(whole, epsilon=target.epsilon, delta=target.delta))
