"""The release of a noisy number of records, and the plan of a run that uses the released number.

If neighbours differ by adding or removing a record, the number of records is as private as a record. If the caller
names no public number, a noisy count is released first, and the run uses this count as the number of records. The plan
then depends on the released count, but the cost of the plan must not depend on the count. Section 5 of
docs/theory/exact.md says how this is ensured.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from ..accounting.questions.calibration import calibrate
from ..accounting.running_accounts.filters import BudgetExceeded
from ..clipping_and_noise.noise import Philox, RandomSource
from ..composition import Composition
from ..mechanisms import ApproximateDP, Gaussian, Mechanism
from ..release_gate.budget import BudgetWithinCaps, FixedPlan, ReleaseBudget, Target, check_noise_against_gate_budget
from ..release_gate.gate import Gate
from ..release_gate.oracle import Oracle, Public
from ..release_gate.shares import build_caps_for_gate_charge
from .building_blocks.algorithm import Algorithm, AlgorithmPlan, check_algorithm_release_count
from .building_blocks.public_step_length import check_stable_step_length

SHARE = 0.01
"""Share of the budget for the count. The budget is measured in mu^2, the sum of 1 / noise_multiplier^2. The standard
deviation of the count's noise is 1 / sqrt(SHARE) = 10 times the noise multiplier of the whole run: 37 records at
epsilon 1 and delta 1e-5. All other noise grows by half a percent."""
PLAIN_SHARE = 0.02
"""Share of epsilon and delta for the count if the other releases are known only by their epsilon and delta. The count's
noise then has a standard deviation of 240 records at epsilon 1 and delta 1e-5."""
FREED = 1e-3
"""Fraction of the count's mu^2 that the count does not spend. It pays for ``tightdp.release_gate.shares.SLACK``, the
relative margin by which releases may exceed their planned costs."""
REFERENCE = 10**6
"""Number of records of the reference plan, which sets the cost of every plan. A plan for another number of records may
not cost more."""
NUMBERS = (REFERENCE, 1)
"""Numbers of records for which the settings must have a plan, before a count is charged."""
MOST_EPSILON = 1e4
"""Largest epsilon from which the count's noise is computed. An algorithm's own tiny noise may give a larger epsilon."""


def release_record_count_for_algorithm(
    algorithm: Algorithm,
    facts: Public,
    target: Target,
    oracle: Oracle,
    source: RandomSource,
    callback: Callable[[int, int | None], object] | None,
    pay: Callable[[Composition], None],
) -> tuple[Public, AlgorithmPlan, Gate, Composition, Mechanism]:
    """Releases the number of records, and makes the plan and the gate of a run with that number.

    Returns the public facts, the plan, the gate, the whole charge and the mechanism of the count. ``facts.records`` is
    not read, and all other facts are public. ``pay`` is called with the charge before any release.
    """
    held, count = _divide_algorithm_target(algorithm, facts, target)
    check_algorithm_for_record_counts(algorithm, facts, held.target, oracle)
    charged = count + held.charge
    count_gate = Gate(FixedPlan(count), source, pay=lambda: pay(charged))
    released = count_gate.release_gaussian(oracle.record_count_query(), count.noise_multiplier).value[0]
    if callback is not None:
        callback(1, None)
    public = dataclasses.replace(facts, records=max(1, round(released)))
    try:
        plan = algorithm.plan(public, held.target)
    except ValueError as error:
        raise ValueError(
            _explain_refused_record_count(algorithm, f"{public.records} records, a number that was released", error)
        ) from None
    total = None if plan.releases is None else plan.releases + 1
    progress = None if callback is None else lambda done: callback(done + 1, total)
    budget = BudgetWithinCaps(plan.budget, held.limit(plan))
    return public, plan, Gate(budget, source, progress), charged, count


def rehearse_algorithm_run(plan: AlgorithmPlan, oracle: Oracle, public: Public) -> None:
    """Runs a plan up to its first release, on an empty table, so that errors are raised before anything is charged.

    ``oracle`` gives the model and the number of features. The plan cannot be run afterwards."""

    check_algorithm_release_count(plan)
    rehearse_releases_for_record_count(
        plan.budget, lambda gate: plan.run(oracle.build_empty_oracle(public), gate, np.zeros(public.size))
    )


def rehearse_releases_for_record_count(budget: ReleaseBudget, run: Callable[[Gate], object]) -> None:
    """Calls ``run``, and ends the call when the first release would be paid for. Errors before this point are
    raised."""

    def stop_algorithm_rehearsal() -> None:
        """Ends the rehearsal in place of a payment."""
        raise _FirstReleaseReached

    with suppress(_FirstReleaseReached):
        run(Gate(budget, Philox(0), pay=stop_algorithm_rehearsal))


class _FirstReleaseReached(Exception):
    """An exception that ends a rehearsal at its first release."""


def check_algorithm_for_record_counts(algorithm: Algorithm, facts: Public, target: Target, oracle: Oracle) -> None:
    """Raises ValueError if the settings have no plan for a usual number of records, or no plan for a single record.

    The error comes before a count is charged. The true number of records is not read.
    """
    for records in NUMBERS:
        public = dataclasses.replace(facts, records=records)
        try:
            rehearse_algorithm_run(algorithm.plan(public, target), oracle, public)
        except (ValueError, BudgetExceeded) as error:
            if records == REFERENCE:
                raise
            raise ValueError(_explain_refused_record_count(algorithm, f"{records} record", error)) from None


def _explain_refused_record_count(algorithm: Algorithm, records: str, error: Exception) -> str:
    """Returns the text of the error for settings that have no plan for ``records``, a number of records as text."""
    return (
        f"public_size must be given, a public number of records, or other settings must be chosen: {algorithm!r} has "
        f"no plan for {records}: {error}"
    )


def check_algorithm_beside_record_count(algorithm: Algorithm, facts: Public, target: Target, oracle: Oracle) -> None:
    """Applies ``check_algorithm_for_record_counts`` to the part of a target that the count leaves."""
    check_algorithm_for_record_counts(
        algorithm, facts, _divide_algorithm_target(algorithm, facts, target)[0].target, oracle
    )


def compute_algorithm_charge_with_count(algorithm: Algorithm, facts: Public, target: Target) -> Composition:
    """Returns the charge of ``release_record_count_for_algorithm``. The charge does not depend on the records."""
    held, count = _divide_algorithm_target(algorithm, facts, target)
    return count + held.charge


class _RestOfBudget(NamedTuple):
    """The limits of the releases after the count."""

    target: Target
    """Target for which the algorithm makes its plan."""
    charge: Composition
    """Charge of the releases after the count."""
    limit: Callable[[AlgorithmPlan], ReleaseBudget]
    """Function that takes a plan, and returns a budget that keeps the plan within ``charge``."""


def _divide_algorithm_target(algorithm: Algorithm, facts: Public, target: Target) -> tuple[_RestOfBudget, Gaussian]:
    """Divides the target between the count and the other releases. Returns the limits of the other releases, and the
    mechanism of the count."""
    if getattr(algorithm, "cost_is_public", False):
        return _divide_caps_for_record_count_of_algorithm(algorithm, facts, target)
    if target.epsilon is None:
        raise ValueError(
            f"public_size must be given, a public number of records: with these settings, the cost of {algorithm!r} "
            "depends on the number of records"
        )
    # Settings that are wrong for every number of records are refused before the number is released.
    check_noise_against_gate_budget(getattr(algorithm, "noise_multiplier", None), target)
    check_stable_step_length("optimizer", facts, getattr(algorithm, "optimizer", None))
    count, rest = divide_target_for_record_count(target.epsilon, target.delta)
    held = Target(rest.nominal_epsilon, rest.nominal_delta)

    def check_algorithm_charge(plan: AlgorithmPlan) -> ReleaseBudget:
        """Returns the budget of a plan, whose charge must not exceed the target."""
        if plan.budget.charge().epsilon(rest.nominal_delta).upper > rest.nominal_epsilon:
            raise ValueError(f"algorithm must plan within its target, ({rest!r}), got {plan.budget.charge()!r}")
        return plan.budget

    return _RestOfBudget(held, rest * 1, check_algorithm_charge), count


def divide_target_for_record_count(epsilon: float, delta: float) -> tuple[Gaussian, ApproximateDP]:
    """Returns the mechanism of a noisy count of the records, and the guarantee that the other releases must meet.

    The other releases get all but the part ``PLAIN_SHARE`` of epsilon and delta.
    """
    rest = ApproximateDP((1 - PLAIN_SHARE) * epsilon, (1 - PLAIN_SHARE) * delta)
    return Gaussian(float(calibrate(lambda z: Gaussian(z) + rest, epsilon=epsilon, delta=delta))), rest


def _divide_caps_for_record_count_of_algorithm(
    algorithm: Algorithm, facts: Public, target: Target
) -> tuple[_RestOfBudget, Gaussian]:
    """Divides the target between the count and the other releases, which must stay within the caps of a reference plan.

    The reference plan is the plan for ``REFERENCE`` records. Its caps are the sum of 1/noise_multiplier^2 over its
    Gaussians, and the number of uses of every other mechanism."""
    reference = dataclasses.replace(facts, records=REFERENCE)
    epsilon = target.epsilon
    if epsilon is None:
        epsilon = min(algorithm.plan(reference, target).budget.charge().epsilon(target.delta).upper, MOST_EPSILON)
    noise = float(calibrate(Gaussian, epsilon=epsilon, delta=target.delta)) / math.sqrt(SHARE)
    if target.epsilon is not None:
        target = target._replace(beside=Gaussian(noise) * 1)
    charge = algorithm.plan(reference, target).budget.charge()

    rest = _RestOfBudget(
        target, build_caps_for_gate_charge(charge).charge(), lambda plan: build_caps_for_gate_charge(charge)
    )
    return rest, Gaussian(noise / math.sqrt(1 - FREED))
