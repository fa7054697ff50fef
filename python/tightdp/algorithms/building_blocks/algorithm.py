"""The interface of an algorithm, and the parts of the plan that it makes from public facts and a target.

An oracle makes queries about the records, and a gate releases the values of queries with noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from ..._support import _check
from ...composition import Composition
from ...mechanisms import Gaussian, Mechanism, PoissonSampled
from ...models.model_interface import Vector
from ...release_gate.budget import ReleaseBudget, Target
from ...release_gate.gate import Gate
from ...release_gate.oracle import Oracle, Public

Run = Callable[[Oracle, Gate, Vector], Vector]
"""Function that maps (oracle, gate, initial parameters) to the final parameters, computed from releases alone."""


batch_size = _check.build_argument_check("[1e-6, inf)")
"""Check of an expected batch size. Below 1e-6, an epoch would have more steps than anybody takes."""


def build_algorithm_release(noise_multiplier: float, sampling_probability: float) -> Mechanism:
    """Returns the Gaussian mechanism on a Poisson sample with this sampling probability."""
    gaussian = Gaussian(noise_multiplier)
    return PoissonSampled(gaussian, sampling_probability) if sampling_probability < 1 else gaussian


class AlgorithmReleases(NamedTuple):
    """A Gaussian mechanism on a Poisson sample, repeated ``number`` times with the same noise."""

    sampling_probability: float
    noise_multiplier: float
    number: int

    @property
    def composed_releases(self) -> Composition:
        """The composition of all these releases."""
        return build_algorithm_release(self.noise_multiplier, self.sampling_probability) * self.number


class AlgorithmPlan(NamedTuple):
    """The releases of a run, which are fixed before any record is read.

    Fields
    ------
    budget : the budget that each release is charged to
    run : a function of an oracle, a gate and the first parameters, which returns the trained parameters
    releases : the number of releases, or None
    used : the settings that the plan chose

    The budget raises ``BudgetExceeded`` if a run releases more than the plan allows.

    >>> import tightdp as dp
    >>> from tightdp.train import AlgorithmPlan, FixedPlan
    >>> plan = AlgorithmPlan(FixedPlan(dp.Gaussian(50.0) * 40), lambda oracle, gate, w: w, 40)
    >>> plan.budget.charge()
    Gaussian(noise_multiplier=50.0) * 40
    """

    budget: ReleaseBudget
    run: Run
    releases: int | None = None
    """Number of releases. It is None if the number depends on released values."""
    used: Mapping[str, Any] = MappingProxyType({})
    """The chosen values of settings that the user left open, and derived settings. The statement lists all of these."""


MOST_RELEASES = 10**7
"""Largest number of releases of a plan. On a thousand records, a plan with so many releases takes an hour."""


MOST_STEPS = MOST_RELEASES // 4
"""Largest number of steps of a run with small batches. If a run would need more steps, its batches are enlarged."""


def compute_smallest_algorithm_batch_share(epochs: float) -> float:
    """Returns the smallest batch size with which ``epochs`` epochs take at most ``MOST_STEPS`` steps.

    The result is a share of the records, in (0, 1]. The user chooses a batch size before the number of records is
    released. A batch size below this share of the records is therefore replaced by this share."""
    return min(1.0, epochs / MOST_STEPS)


def check_algorithm_step_count(name: str, value: Any) -> int:
    """Returns the value of a setting that counts releases, such as ``steps``, after a check of its range."""
    return _check.check_count_argument(name, value, most=MOST_RELEASES)


def check_algorithm_release_count(plan: AlgorithmPlan) -> None:
    """Raises ValueError, before anything is released, if a plan has more than ``MOST_RELEASES`` releases."""
    charged = sum(count for _, count in plan.budget.charge().parts)
    releases = max(plan.releases or 0, charged)
    if releases > MOST_RELEASES:
        raise ValueError(f"algorithm must plan at most {MOST_RELEASES:,} releases, and its settings make {releases:,}")


class Algorithm(Protocol):
    """The interface of an algorithm, which is a frozen dataclass of settings.

    If the attribute ``cost_is_public`` is true, the cost of a plan's releases does not depend on the number of records.
    The author of the algorithm has to make sure of this. If the number of records is private, the whole run is charged
    before a noisy count is released, and no plan for the released count may cost more (docs/theory/exact.md, section
    5). If the attribute ``in_memory`` is true, the algorithm's queries need all records at once, and sums over blocks
    of records are not enough.

    docs/architecture.md shows the code of a complete algorithm.

    >>> from tightdp.train import DPSGD, Public, Target
    >>> plan = DPSGD(batch_size=100).plan(Public(records=5000, size=3), Target(1.0, 1e-6))
    >>> plan.budget.charge().epsilon(1e-6) <= 1.0
    True
    """

    def plan(self, public: Public, target: Target) -> AlgorithmPlan:
        """Returns a plan that fixes the releases, or caps on them.

        ``public`` holds the public facts, and ``target`` the guarantee to meet. Raises ``ValueError`` for settings that
        cannot meet the target.
        """
