"""Algorithm: a frozen description that, given public facts and a target, makes a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from ... import _check
from ...composition import Composition
from ...gate.budget import ReleaseBudget, Target
from ...gate.gate import Gate
from ...gate.oracle import Oracle, Public
from ...mechanisms import Gaussian, Mechanism, PoissonSampled
from ...models.model import Vector

Run = Callable[[Oracle, Gate, Vector], Vector]
"""(oracle, gate, initial parameters) -> final parameters, computed from releases alone."""


batch_size = _check.interval("[1e-6, inf)")
"""Check of an expected batch size. With less than 1e-6 an epoch would have more steps than anybody takes."""


def build_sampled_gaussian(noise_multiplier: float, sampling_probability: float) -> Mechanism:
    """Returns the mechanism of Gaussian noise on a query with this sampling probability."""
    gaussian = Gaussian(noise_multiplier)
    return PoissonSampled(gaussian, sampling_probability) if sampling_probability < 1 else gaussian


class RepeatedRelease(NamedTuple):
    """Releases that are alike: a Gaussian of noise on a Poisson sample, so many times."""

    sampling_probability: float
    noise_multiplier: float
    number: int

    @property
    def composed_releases(self) -> Composition:
        """The composition of all these releases."""
        return build_sampled_gaussian(self.noise_multiplier, self.sampling_probability) * self.number


class AlgorithmPlan(NamedTuple):
    """The releases of a run, fixed before any record is looked at."""

    budget: ReleaseBudget
    run: Run
    releases: int | None = None
    """Number of releases; None if it depends on them."""
    used: Mapping[str, Any] = MappingProxyType({})
    """The settings that were left open, as they were chosen, and those that follow from others, for the statement."""


MOST_RELEASES = 10**7
"""Largest number of releases of a plan. With a thousand records they take an hour."""


MOST_STEPS = MOST_RELEASES // 4
"""Largest number of steps that a small batch size may make of few epochs. With more, batches are enlarged."""


def compute_smallest_share(epochs: float) -> float:
    """Returns the least share of records in a batch, in (0, 1], with which ``epochs`` take ``MOST_STEPS`` at most.

    A batch size is chosen before the number of records is released, so it needs a plan for any number. If it is below
    this share of the records, it stands for a larger one."""
    return min(1.0, epochs / MOST_STEPS)


def check_release_count(name: str, value: Any) -> int:
    """Returns a checked setting that says how many releases are made."""
    return _check.count(name, value, most=MOST_RELEASES)


def check_length(plan: AlgorithmPlan) -> None:
    """Raises ValueError for a plan whose run would not end, before anything is released."""
    charged = sum(count for _, count in plan.budget.charge().parts)
    releases = max(plan.releases or 0, charged)
    if releases > MOST_RELEASES:
        raise ValueError(f"algorithm must plan at most {MOST_RELEASES:,} releases, and its settings make {releases:,}")


class Algorithm(Protocol):
    """A frozen dataclass of settings; see ``tightdp.train`` for how to write one.

    The attribute ``cost_is_public`` may say that the cost of a plan's releases does not depend on the number of
    records. A private count of them is then cheap, and the plan must keep to that cost (docs/theory/exact.md, section
    5). The attribute ``in_memory`` may say that its queries need all records at once, not sums over blocks of them.
    """

    def plan(self, public: Public, target: Target) -> AlgorithmPlan:
        """Fixes what will be released, or the caps on it. Raises ``ValueError`` for settings that cannot meet the
        target."""
