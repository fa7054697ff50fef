"""Accountants with prv_accountant's interface, which return tightdp's certified bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from ..._support import _check
from ...bound import Bound
from ...composition import Composition
from ...options import Neighbors
from .privacy_random_variables import PrivacyRandomVariable

Triple = tuple[float, float, float]
"""Lower bound, estimate and upper bound. The estimate is the middle of the bounds, and carries no guarantee."""


class PRVAccountant:
    """An accountant that composes privacy random variables, each up to ``max_self_compositions`` times (once by
    default).

    The bounds are certified, and hold both for adding and for removing a record. If a variable is a class of your own,
    the bounds hold for removing a record only. ``eps_error``, ``delta_error`` and ``eps_max`` are checked, but have no
    effect. The bounds are those of the default engine, at any delta in (0, 1).

    ``prvs`` are one or more variables of this package. In the methods, ``num_self_compositions`` is how often each
    variable is composed, once by default. Raises TypeError for other variables, and ValueError for a number out of its
    range.

    >>> from tightdp.adapters.prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant
    >>> step = PoissonSubsampledGaussianMechanism(sampling_probability=0.01, noise_multiplier=1.0)
    >>> account = PRVAccountant(step, eps_error=0.01, delta_error=1e-10, max_self_compositions=1000)
    >>> low, estimate, high = account.compute_epsilon(1e-5, 1000)
    >>> f"{high:.5f}", account.compute_delta(2.0, 1000)[2] < 1e-5
    ('1.82824', True)
    """

    def __init__(
        self,
        prvs: PrivacyRandomVariable | Sequence[PrivacyRandomVariable],
        eps_error: float,
        delta_error: float,
        max_self_compositions: int | Sequence[int] | None = None,
        eps_max: float | None = None,
    ) -> None:
        if isinstance(prvs, PrivacyRandomVariable):
            prvs = [prvs]
        self.prvs = list(prvs)
        if not self.prvs or not all(isinstance(prv, PrivacyRandomVariable) for prv in self.prvs):
            raise TypeError(f"prvs must be one or more privacy random variables of this module, got {prvs!r}")
        self.eps_error = _check.positive("eps_error", eps_error)
        self.delta_error = _check.positive("delta_error", delta_error)
        self.eps_max = None if eps_max is None else _check.positive("eps_max", eps_max)
        self.max_self_compositions = self._check_prv_accountant_counts(
            "max_self_compositions", max_self_compositions, least=1
        )
        self._found = [prv._build_prv_accountant_mechanisms() for prv in self.prvs]
        own = any(
            type(prv)._build_prv_accountant_mechanisms is PrivacyRandomVariable._build_prv_accountant_mechanisms
            for prv in self.prvs
        )
        self._neighbors: Neighbors = "remove" if own else "add_or_remove"

    def compute_epsilon(self, delta: float, num_self_compositions: int | Sequence[int] | None = None) -> Triple:
        """Returns bounds on epsilon at ``delta`` in (0, 1)."""
        return self._ask_both_sides_of_prv_accountant(
            num_self_compositions, lambda run: run.epsilon(delta, neighbors=self._neighbors)
        )

    def compute_delta(self, epsilon: float, num_self_compositions: int | Sequence[int] | None = None) -> Triple:
        """Returns bounds on delta at any real ``epsilon``."""
        return self._ask_both_sides_of_prv_accountant(
            num_self_compositions, lambda run: run.delta(epsilon, neighbors=self._neighbors)
        )

    def compute_composition(
        self, num_self_compositions: int | Sequence[int] | None = None
    ) -> ComposedPrivacyRandomVariables:
        """Returns the composed variables, which have methods for epsilon and delta."""
        # This call checks the counts.
        self._ask_both_sides_of_prv_accountant(num_self_compositions, lambda run: Bound(0.0, 0.0, "none"))
        return ComposedPrivacyRandomVariables(self, num_self_compositions)

    def _ask_both_sides_of_prv_accountant(
        self, num_self_compositions: int | Sequence[int] | None, ask: Callable[[Composition], Bound]
    ) -> Triple:
        """Returns a lower bound, the middle, and an upper bound of the quantity that ``ask`` bounds.

        Parameters are rounded to the more private side for the lower bound, and to the less private side for the upper
        bound.
        """
        counts = self._check_prv_accountant_counts("num_self_compositions", num_self_compositions, least=0)
        for count, most in zip(counts, self.max_self_compositions, strict=True):
            if count > most:
                raise ValueError(f"num_self_compositions must be at most max_self_compositions, {most}, got {count}")
        worse, better = (
            Composition(
                (mechanism, n) for mechanism, n in zip(side, counts, strict=True) if mechanism is not None and n
            )
            for side in zip(*self._found, strict=True)
        )
        above = ask(worse)
        lower, upper = (above if better == worse else ask(better)).lower, above.upper
        return lower, (lower + (upper - lower) / 2 if math.isfinite(upper) else upper), upper

    def _check_prv_accountant_counts(self, name: str, given: int | Sequence[int] | None, least: int) -> list[int]:
        if given is None:
            return [1] * len(self.prvs)
        counts = list(given) if isinstance(given, Iterable) else [given]
        if len(counts) != len(self.prvs):
            raise ValueError(f"{name} must have one entry for each of the {len(self.prvs)} prvs, got {given!r}")
        return [_check.check_count_argument(name, count, least=least) for count in counts]


class ComposedPrivacyRandomVariables:
    """The result of ``PRVAccountant.compute_composition``. Its methods return the same bounds as the accountant."""

    def __init__(self, accountant: PRVAccountant, num_self_compositions: int | Sequence[int] | None) -> None:
        self._accountant, self._counts = accountant, num_self_compositions

    def compute_epsilon(self, delta: float, delta_error: float = 0.0, epsilon_error: float = 0.0) -> Triple:
        """Returns bounds on epsilon at ``delta``. The arguments ``delta_error`` and ``epsilon_error`` have no effect,
        because they are about a grid that is not used here."""
        return self._accountant.compute_epsilon(delta, self._counts)

    def compute_delta_estimate(self, epsilon: float) -> float:
        """Returns the middle of the bounds on delta, which carries no guarantee."""
        return self._accountant.compute_delta(epsilon, self._counts)[1]
