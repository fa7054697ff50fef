"""The plan of a run: its releases, which are fixed before the first record is read."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..._support import _check
from ...algorithms.adaclip import AdaCliP, limit_adaclip_batch
from ...algorithms.building_blocks.algorithm import AlgorithmReleases, build_algorithm_release
from ...algorithms.building_blocks.algorithm import batch_size as check_batch_size
from ...algorithms.dpis import DPIS, DPISEpochSettings
from ...algorithms.record_count import NUMBERS, divide_target_for_record_count
from ...clipping_and_noise import clipping
from ...clipping_and_noise.clipping import Arithmetic
from ...clipping_and_noise.gradients import exact_grid
from ...clipping_and_noise.noise import RandomSource
from ...composition import Composition
from ...mechanisms import ApproximateDP, Gaussian, Mechanism
from ...models import dense
from ...models.contribution_grid import choose_contribution_grid
from ...release_gate.budget import FixedPlan, Target, check_noise_against_gate_budget
from ...release_gate.gate import Gate
from ...release_gate.oracle import Public, Query
from ...statement.statement import describe_large_stated_delta
from .algorithm_settings import MOST_RECORDS, Settings, count_steps_of_plan, fill_settings_of_plan, plan_steps_of_run
from .loss_release import LossRelease

LEAST_STEPS_BETWEEN_LOOKS = 100
"""Least number of steps between two checks (looks) that neither the model nor the data set keeps anything of the
records."""
SumArithmetic = Arithmetic | Literal["auto", "products", "one-by-one"]
"""Type of the argument ``arithmetic`` of ``make_private``, which says how gradients are added up."""
ARITHMETIC: tuple[SumArithmetic, ...] = ("auto", "exact", "products", "one-by-one", "float")
"""Values of the argument ``arithmetic`` of ``make_private``."""
_FINE_NOISE, _FINEST_NOISE = 31, 38
"""Number of binary digits of the noise's standard deviation, in grid steps of products of integers. The first number is
preferred. With 31 digits the sampler takes its slow way in at most one draw of 512 (docs/theory/noise.md, section 5.2).
With 38 digits the deviation is below the largest that the sampler draws, and no grid is finer."""
_LEAST_PRODUCT_DIGITS = 27
"""Number of binary digits of the norm bound, in grid steps, below which the grid is not made coarser for the sake of
the sampler's speed. With fewer digits, integers would make clipped records noticeably shorter than the bound
(docs/theory/exact-products.md, section 7)."""
_MOST_DEVIATIONS = 16
"""Number of standard deviations of the noise that the type of the parameters must hold without overflow. A coordinate
of the noise exceeds so many standard deviations with probability below 2^-180."""
_HIDDEN_ROUNDING = 2.0**-9
"""Smallest noise multiplier, divided by the square root of the batch size, for which "auto" adds products of integers.
Each product has a rounding error of 2^-15 of the norm bound. The errors of a batch of B records have signs that are as
good as random. They add up to 2^-15 sqrt(B) norm bounds, at most a 64th of the noise. With less noise "auto" computes
the gradient of each record, which has a rounding error of 2^-24 of the norm bound."""


@dataclass(frozen=True)
class Plan:
    """The plan of a run, which consists of ``steps`` releases of ``mechanism``.

    If the number of records is private, a noisy count of the records is released before the steps. ``records`` is the
    public number of records or the noisy count. The sampling probability and the divisor follow from this number.

    Fields
    ------
    records : the number of records
    batch_size : the expected number of records of a step, > 0
    steps : the number of steps
    noise_multiplier, max_norm, rest, settings, loss : as below
    delta : the delta of the run, in (0, 1)
    arithmetic : how sums are computed, as in ``make_private``
    count : the release of the number of records, or None if it is public

    ``make_private`` makes the plan, and raises an error for a wrong argument.

    >>> import torch
    >>> from tightdp.torch import make_private
    >>> model = torch.nn.Linear(1, 1)
    >>> data = torch.utils.data.TensorDataset(torch.ones(500, 1), torch.ones(500, 1))
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> run = make_private(model, optimizer, data, epsilon=2.0, delta=1e-5, batch_size=50, epochs=1, max_norm=1.0,
    ...                    public_size=500)
    >>> plan = run.plan
    >>> plan.steps, plan.sampling_probability, plan.charge_after(4) == plan.mechanism * 4
    (10, 0.1, True)
    """

    records: int
    batch_size: float
    steps: int
    noise_multiplier: float
    """Noise multiplier for which a step is charged, both with and without a release of losses."""
    max_norm: tuple[float, ...]
    """Norm bound for all parameters together, or a norm bound for each parameter. It is 1 for AdaCliP, which divides
    gradients by their scale."""
    delta: float
    arithmetic: SumArithmetic
    count: Gaussian | None
    rest: ApproximateDP | None
    """Charge of all steps together, if earlier releases decide about the steps. Such a release is the number of records
    (docs/theory/exact.md, section 5) or a sum of norms (docs/theory/dpis.md, section 4). Otherwise each step is charged
    by itself, and this is None."""
    settings: Settings | None = None
    """Settings of AdaCliP or DPIS. For other algorithms this is None."""
    loss: LossRelease | None = None
    """Settings for releasing losses together with the gradients. This is None if losses are not released."""

    @property
    def sampling_probability(self) -> float:
        """Probability that a record takes part in a step. For DPIS it is the probability for a record whose gradient
        norm equals the norm bound. If DPIS releases the share of norms (the mean clipped norm divided by the norm
        bound), this is the probability for the largest share, 1.
        """
        share = self.settings.norm_share if isinstance(self.settings, DPIS) else None
        return min(1.0, self.batch_size / self.records / (share or 1.0))

    @property
    def divisor(self) -> float:
        """Number by which sums are divided to estimate a mean over records."""
        if isinstance(self.settings, DPIS):
            return self.sampling_probability * self.records
        return min(self.batch_size, float(self.records))

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps in which a record takes part once on average.

        For DPIS it is the number of steps from one sum of norms to the next.
        """
        if isinstance(self.settings, DPIS):
            return self.steps // self.settings.epochs
        return max(1, math.ceil(self.records / self.batch_size))

    @property
    def steps_between_looks(self) -> int:
        """Number of steps, at least an epoch, between two checks that nothing of the records is kept."""
        return max(self.steps_per_epoch, LEAST_STEPS_BETWEEN_LOOKS)

    @property
    def mechanism(self) -> Mechanism:
        """Mechanism of one step. If DPIS releases the share of norms, it is the mechanism for the largest share."""
        return build_algorithm_release(self.noise_multiplier, self.sampling_probability)

    @property
    def planned_steps(self) -> AlgorithmReleases:
        """The steps of the run. If DPIS releases the share of norms, the steps are planned for the largest share."""
        return AlgorithmReleases(self.sampling_probability, self.noise_multiplier, self.steps)

    def choose_by_epoch(self, size: int) -> DPISEpochSettings:
        """Returns the rule that chooses the steps of each epoch from a released sum of norms.

        ``size`` is the number of entries of the trained parameters.
        """
        assert isinstance(self.settings, DPIS) and self.rest is not None
        target = Target(self.rest.nominal_epsilon, self.rest.nominal_delta)
        most = (
            clipping.find_largest_release_deviation("int64", self.planned_grid_step) / self.sensitivity * (1 - 2.0**-50)
        )
        return DPISEpochSettings(self.settings, Public(self.records, size), target, most)

    @property
    def charged(self) -> Composition:
        """Charge of all releases of the run."""
        if self.rest is None:
            return self.mechanism * self.steps
        return self.rest * 1 if self.count is None else self.count + self.rest

    def charge_after(self, steps: int) -> Composition:
        """Returns the charge of a run that ended after this number of steps.

        ``steps`` is an integer in [0, ``self.steps``].
        """
        if not steps:
            return Composition() if self.count is None else self.count * 1
        return self.mechanism * steps if self.rest is None else self.charged

    @property
    def sensitivity(self) -> float:
        """Largest L2 norm that one record can add to the sums, rounded up."""
        return clipping.bound_clipped_sum_sensitivity([([], bound) for bound in self.max_norm])

    @property
    def planned_grid_step(self) -> float:
        """Grid step of the integer sums, a power of two."""
        if self.arithmetic not in ("auto", "products"):
            return exact_grid(self.max_norm)
        fast = choose_contribution_grid(self.noise_deviation, _FINE_NOISE)
        return max(
            dense.choose_dense_product_grid(self.max_norm[0]),
            min(fast, choose_contribution_grid(self.max_norm[0], _LEAST_PRODUCT_DIGITS)),
            choose_contribution_grid(self.noise_deviation, _FINEST_NOISE),
        )

    @property
    def gradient_multiplier(self) -> float:
        """Noise multiplier of the sums of gradients. It exceeds ``noise_multiplier`` if losses are released too."""
        noise = self.noise_multiplier
        return noise if self.loss is None else self.loss.gradient_multiplier(noise)

    @property
    def noise_deviation(self) -> float:
        """Standard deviation of the noise on each coordinate of the sums of gradients."""
        return self.gradient_multiplier * self.sensitivity


def check_norm_bounds_of_plan(max_norm: Any, parameters: int) -> tuple[float, ...]:
    """Returns the checked norm bounds: a single bound, or a bound for each of ``parameters`` parameters."""
    if not clipping.has_several_clipping_norms(max_norm):
        return (clipping.exact_bound("max_norm", max_norm),)
    found = tuple(clipping.exact_bound("max_norm", bound) for bound in max_norm)
    if len(found) != parameters:
        raise ValueError(f"max_norm must be a number, or one for each of {parameters} parameters, got {len(found)}")
    return found


@dataclass(frozen=True)
class _CheckedSettings:
    """The checked settings of a run, from which a plan follows for any number of records."""

    batch_size: float
    epochs: float
    bounds: tuple[float, ...]
    """Norm bound of each parameter group that is clipped by itself."""
    arithmetic: SumArithmetic
    own: Settings | None
    """Settings of AdaCliP or DPIS, completed by the arguments of ``make_private``."""
    size: int
    """The number of entries of the trained parameters."""
    largest: float
    """The largest number that all types of trained parameters hold."""
    loss: LossRelease | None

    def make_torch_plan_for_records(self, records: int, noise_multiplier: float | None, target: Target) -> Plan:
        """Returns the plan for this number of records. Raises ValueError if no plan exists, as for too much noise."""
        settings, batch = self.own, self.batch_size
        if isinstance(settings, AdaCliP):
            batch = limit_adaclip_batch(self.batch_size, records, self.epochs)
        elif isinstance(settings, DPIS):
            batch = settings.compute_dpis_share_of_records(records) * records
        found = plan_steps_of_run(settings, batch, self.epochs, noise_multiplier, Public(records, self.size), target)
        noise = found.noise_multiplier
        rest = None
        if isinstance(settings, DPIS) and settings.norm_share is None and target.epsilon is not None:
            rest = ApproximateDP(target.epsilon, target.delta)
        rounded = self.arithmetic == "auto" and noise < _HIDDEN_ROUNDING * math.sqrt(min(batch, records))
        how: SumArithmetic = "exact" if rounded else self.arithmetic
        made = Plan(
            records, batch, found.number, noise, self.bounds, target.delta, how, None, rest, settings, self.loss
        )
        if not made.noise_deviation <= clipping.find_largest_release_deviation("int64", made.planned_grid_step):
            wanted = "epsilon must be larger, or batch_size smaller: it would take a noise multiplier of {noise:g}"
            given = 'noise_multiplier must be smaller for arithmetic="{arithmetic}", got {noise:g}'
            text = wanted if noise_multiplier is None else given
            raise ValueError(text.format(noise=noise, arithmetic=how))
        if not _MOST_DEVIATIONS * made.noise_deviation / made.divisor <= self.largest:
            raise ValueError(
                f"max_norm must be smaller, or the parameters of a wider type: the noise on a gradient would have a "
                f"standard deviation of {made.noise_deviation / made.divisor:g}, and it must be at most 1 / "
                f"{_MOST_DEVIATIONS} of {self.largest:g}, the largest number of their type"
            )
        if rest is not None:
            # Raises an error if sums of norms use up the budget.
            made.choose_by_epoch(self.size).make_dpis_filter(made.planned_steps)
        return made


def plan_run(
    records: int,
    source: RandomSource,
    *,
    epsilon: float | None,
    delta: float | None,
    batch_size: float,
    epochs: float,
    max_norm: tuple[float, ...],
    noise_multiplier: float | None,
    public_size: int | None,
    arithmetic: SumArithmetic,
    own: Settings | None,
    size: int,
    largest: float = math.inf,
    pay: Callable[[Composition], None],
    released: int | None = None,
    loss: LossRelease | None = None,
) -> Plan:
    """Returns the plan for ``records`` records. Without ``public_size`` a noisy count of the records is released first.

    ``pay`` is called with the charge before any release. ``own`` are the settings of AdaCliP or DPIS, and ``size`` is
    the number of entries of the trained parameters. ``largest`` is the largest number that all their types hold. If a
    run is continued, ``released`` is its number of records, for which it was charged already. ``loss`` has the settings
    for releasing losses, which use a share of the charge of each step.
    """
    target = Target.from_arguments(epsilon, delta)
    _check.check_choice_argument("arithmetic", arithmetic, ARITHMETIC)
    expected, turns = check_batch_size("batch_size", batch_size), _check.positive("epochs", epochs)
    noise = None if noise_multiplier is None else _check.positive("noise_multiplier", noise_multiplier)
    check_noise_against_gate_budget(noise, target)
    if arithmetic == "products" and len(max_norm) > 1:
        raise ValueError(f'max_norm must be one number for arithmetic="products", got {len(max_norm)}')
    settings = None if own is None else fill_settings_of_plan(own, expected, turns, max_norm)
    bounds = (1.0,) if isinstance(own, AdaCliP) else max_norm
    checked = _CheckedSettings(expected, turns, bounds, arithmetic, settings, size, largest, loss)
    if public_size is not None:
        known = _check.check_count_argument("public_size", public_size)
        if expected > known:
            raise ValueError(f"batch_size must be at most public_size, in (0, {known}], got {expected:g}")
        if isinstance(own, AdaCliP) and expected == known:
            raise ValueError(f"batch_size must be less than public_size for AdaCliP, in (0, {known}), got {expected:g}")
        made = checked.make_torch_plan_for_records(known, noise, target)
        _warn_of_delta_of_plan(made)
        if released is None:
            pay(made.charged)
        return made
    made = _make_torch_plan_after_count(checked, records, source, noise, target, pay, released)
    _warn_of_delta_of_plan(made)
    return made


def _make_torch_plan_after_count(
    checked: _CheckedSettings,
    records: int,
    source: RandomSource,
    noise: float | None,
    target: Target,
    pay: Callable[[Composition], None],
    released: int | None,
) -> Plan:
    """Returns the plan for a noisy count of the records, which is released unless ``released`` is given.

    The count is paid from the target, and the plan gets the rest. Bad settings are refused before the count is
    released.
    """
    if target.epsilon is None:
        raise ValueError(
            "public_size must be given, a public number of records: with a noise multiplier of your own, what the run "
            "costs depends on it"
        )
    count, rest = divide_target_for_record_count(target.epsilon, target.delta)
    inner = Target(rest.nominal_epsilon, rest.nominal_delta)
    if checked.own is None:
        count_steps_of_plan(MOST_RECORDS, checked.batch_size, checked.epochs)
    for tried in NUMBERS:
        checked.make_torch_plan_for_records(tried, noise, inner)
    if released is None:
        pay(count + rest)
        query = Query((1,), 1.0, 1.0, 1.0, lambda source: np.array([records], np.int64))
        noisy = Gate(FixedPlan(count), source).release_gaussian(query, count.noise_multiplier).value[0]
        released = max(1, round(noisy))
    try:
        made = checked.make_torch_plan_for_records(released, noise, inner)
    except ValueError as error:
        raise ValueError(
            f"public_size must be given, a public number of records, or other settings: there is no plan for "
            f"{released}, which was released: {error}"
        ) from None
    return dataclasses.replace(made, delta=target.delta, count=count, rest=rest)


def _warn_of_delta_of_plan(made: Plan) -> None:
    """Warns if delta is at least 1 / (number of records)."""
    large = describe_large_stated_delta(made.delta, made.records)
    if large:
        warnings.warn(f"{large} Choose a much smaller delta", stacklevel=4)
