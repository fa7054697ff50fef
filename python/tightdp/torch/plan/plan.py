"""The plan of a run: its releases, fixed before the first record is looked at."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ... import _check
from ...accounting.questions.calibration import calibrate
from ...algorithms.adaclip import AdaCliP, limit_batch
from ...algorithms.dpis import DPIS, EpochSettings
from ...algorithms.record_count import NUMBERS, PLAIN_SHARE
from ...algorithms.shared.algorithm import RepeatedRelease, build_sampled_gaussian
from ...algorithms.shared.algorithm import batch_size as check_batch_size
from ...composition import Composition
from ...gate.budget import FixedPlan, Target, check_noise_or_epsilon
from ...gate.gate import Gate
from ...gate.oracle import Public, Query
from ...mechanisms import ApproximateDP, Gaussian, Mechanism
from ...models import dense
from ...models.grid import grid_below
from ...release import clipping
from ...release.clipping import Arithmetic
from ...release.gradients import exact_grid
from ...release.noise import RandomSource
from ...statement.statement import warn_of_large_delta
from .algorithm_settings import MOST_RECORDS, Settings, count_steps, fill_settings, plan_steps
from .loss_release import LossRelease

LEAST_STEPS_BETWEEN_LOOKS = 100
"""Least number of steps between two looks at whether a model or a data set keeps something of the records."""
SumArithmetic = Arithmetic | Literal["auto", "products", "one-by-one"]
"""Ways to add gradients up, as the argument ``arithmetic`` of ``make_private`` names them."""
ARITHMETIC: tuple[SumArithmetic, ...] = ("auto", "exact", "products", "one-by-one", "float")
"""The values of that argument."""
_FINE_NOISE = 31
"""Log2, up to a factor of 2, of the most steps of the grid of products in the noise's deviation. There one draw in 512
takes the sampler's slow way (docs/theory/noise.md, section 5.2)."""
_HIDDEN_ROUNDING = 2.0**-9
"""Smallest noise multiplier, over the root of the batch size, for which "auto" adds products. Each product rounds by
2^-15 of the norm bound, and the roundings of a batch add up like random signs, so they stay below a 64th of the noise.
With less noise "auto" forms gradients, which are cut at 2^-24 of the bound."""


@dataclass(frozen=True)
class Plan:
    """``steps`` releases of ``mechanism``; if the number of records is private, after a release of that number.

    ``records`` is the number of records for sampling and divisors: the public or the released one.
    """

    records: int
    batch_size: float
    steps: int
    noise_multiplier: float
    """Noise multiplier that a step is charged for, whether it releases gradients alone or losses too."""
    max_norm: tuple[float, ...]
    """One bound for all parameters together, or one for each; 1 for AdaCliP, which divides gradients by their scale."""
    delta: float
    arithmetic: SumArithmetic
    count: Gaussian | None
    rest: ApproximateDP | None
    """Charge of all steps together if earlier releases choose them: the number of records (docs/theory/exact.md,
    section 5), or sums of norms (docs/theory/dpis.md, section 4). Otherwise None: each step is charged by itself."""
    settings: Settings | None = None
    """Settings of AdaCliP or DPIS; None for other algorithms."""
    loss: LossRelease | None = None
    """Release of a step's sum of losses beside the gradients; None if it is not released."""

    @property
    def sampling_probability(self) -> float:
        """Probability that a record takes part in a step; for DPIS, of a record with the largest norm.

        Where DPIS releases the share of norms, it is the probability at the largest share.
        """
        share = self.settings.norm_share if isinstance(self.settings, DPIS) else None
        return min(1.0, self.batch_size / self.records / (share or 1.0))

    @property
    def divisor(self) -> float:
        """Number by which sums are divided for a mean over records."""
        if isinstance(self.settings, DPIS):
            return self.sampling_probability * self.records
        return min(self.batch_size, float(self.records))

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which a record takes part once on average; for DPIS the steps between two sums of norms."""
        if isinstance(self.settings, DPIS):
            return self.steps // self.settings.epochs
        return max(1, math.ceil(self.records / self.batch_size))

    @property
    def steps_between_looks(self) -> int:
        """Steps, at least an epoch, after which some records are tried again to see whether anything is kept."""
        return max(self.steps_per_epoch, LEAST_STEPS_BETWEEN_LOOKS)

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism of one step; if DPIS releases the share of norms, that of a step with the largest share."""
        return build_sampled_gaussian(self.noise_multiplier, self.sampling_probability)

    @property
    def planned_steps(self) -> RepeatedRelease:
        """Steps of the run as planned; if the share of norms is released, with the largest share."""
        return RepeatedRelease(self.sampling_probability, self.noise_multiplier, self.steps)

    def choose_by_epoch(self, size: int) -> EpochSettings:
        """Returns how the steps of each epoch follow from a released share of norms; ``size`` numbers are trained."""
        assert isinstance(self.settings, DPIS) and self.rest is not None
        target = Target(self.rest.nominal_epsilon, self.rest.nominal_delta)
        most = clipping.find_largest_deviation("int64", self.grid_step) / self.sensitivity * (1 - 2.0**-50)
        return EpochSettings(self.settings, Public(self.records, size), target, most)

    @property
    def charged(self) -> Composition:
        """Charge of the whole run."""
        if self.rest is None:
            return self.mechanism * self.steps
        return self.rest * 1 if self.count is None else self.count + self.rest

    def charge_after(self, steps: int) -> Composition:
        """Returns the charge of a run that ended after ``steps``."""
        if not steps:
            return Composition() if self.count is None else self.count * 1
        return self.mechanism * steps if self.rest is None else self.charged

    @property
    def sensitivity(self) -> float:
        """L2 norm of what one record adds to the sums, rounded up."""
        return clipping.total_sensitivity([([], bound) for bound in self.max_norm])

    @property
    def grid_step(self) -> float:
        """Step of the grid of the integer sums, a power of two."""
        if self.arithmetic not in ("auto", "products"):
            return exact_grid(self.max_norm)
        return max(dense.choose_product_grid(self.max_norm[0]), grid_below(self.noise_deviation, _FINE_NOISE))

    @property
    def gradient_multiplier(self) -> float:
        """Noise multiplier of the sums of gradients, larger than the charged one if losses are released too."""
        noise = self.noise_multiplier
        return noise if self.loss is None else self.loss.gradient_multiplier(noise)

    @property
    def noise_deviation(self) -> float:
        """Standard deviation of the noise on every coordinate of the sums."""
        return self.gradient_multiplier * self.sensitivity


def check_bounds(max_norm: Any, parameters: int) -> tuple[float, ...]:
    """Returns the checked norm bounds: one, or one for each of so many parameters."""
    if not clipping.has_several_bounds(max_norm):
        return (clipping.exact_bound("max_norm", max_norm),)
    found = tuple(clipping.exact_bound("max_norm", bound) for bound in max_norm)
    if len(found) != parameters:
        raise ValueError(f"max_norm must be a number, or one for each of {parameters} parameters, got {len(found)}")
    return found


def plan(
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
    pay: Callable[[Composition], None],
    released: int | None = None,
    loss: LossRelease | None = None,
) -> Plan:
    """Returns the plan for ``records`` records. Without ``public_size`` their number is released first, with noise.

    ``pay`` is called with the charge before any release. ``own`` are the settings of AdaCliP or DPIS, and ``size`` is
    the number of trained numbers. ``released`` is the number of records that a continued run released, and paid for,
    before. ``loss`` says how training losses are released: by a share of each step, so that the charge stays the same.
    """
    target = Target.from_arguments(epsilon, delta)
    _check.choice("arithmetic", arithmetic, ARITHMETIC)
    expected, turns = check_batch_size("batch_size", batch_size), _check.positive("epochs", epochs)
    noise = None if noise_multiplier is None else _check.positive("noise_multiplier", noise_multiplier)
    check_noise_or_epsilon(noise, target)
    if arithmetic == "products" and len(max_norm) > 1:
        raise ValueError(f'max_norm must be one number for arithmetic="products", got {len(max_norm)}')
    settings = None if own is None else fill_settings(own, expected, turns, max_norm)
    bounds = (1.0,) if isinstance(own, AdaCliP) else max_norm

    def plan_for_records(records: int, noise_multiplier: float | None, target: Target) -> Plan:
        """Returns the plan for so many records. ValueError if they have no plan, for instance for too much noise."""
        batch = expected
        if isinstance(settings, AdaCliP):
            batch = limit_batch(expected, records, turns)
        elif isinstance(settings, DPIS):
            batch = settings.share_of_records(records) * records
        found = plan_steps(settings, batch, turns, noise_multiplier, Public(records, size), target)
        noise = found.noise_multiplier
        rest = None
        if isinstance(settings, DPIS) and settings.norm_share is None and target.epsilon is not None:
            rest = ApproximateDP(target.epsilon, target.delta)
        rounded = arithmetic == "auto" and noise < _HIDDEN_ROUNDING * math.sqrt(min(batch, records))
        how: SumArithmetic = "exact" if rounded else arithmetic
        made = Plan(records, batch, found.number, noise, bounds, target.delta, how, None, rest, settings, loss)
        if not made.noise_deviation <= clipping.find_largest_deviation("int64", made.grid_step):
            wanted = "epsilon must be larger, or batch_size smaller: it would take a noise multiplier of {noise:g}"
            given = 'noise_multiplier must be smaller for arithmetic="{arithmetic}", got {noise:g}'
            text = wanted if noise_multiplier is None else given
            raise ValueError(text.format(noise=noise, arithmetic=how))
        if rest is not None:
            made.choose_by_epoch(size).make_filter(made.planned_steps)  # refuses sums of norms that take everything
        return made

    if public_size is not None:
        known = _check.count("public_size", public_size)
        if expected > known:
            raise ValueError(f"batch_size must be at most public_size, in (0, {known}], got {expected:g}")
        if isinstance(own, AdaCliP) and expected == known:
            raise ValueError(f"batch_size must be less than public_size for AdaCliP, in (0, {known}), got {expected:g}")
        made = plan_for_records(known, noise, target)
        _warn_of_delta(made)
        if released is None:
            pay(made.charged)
        return made
    if target.epsilon is None:
        raise ValueError(
            "public_size must be given, a public number of records: with a noise multiplier of your own, what the run "
            "costs depends on it"
        )
    rest = ApproximateDP((1 - PLAIN_SHARE) * target.epsilon, (1 - PLAIN_SHARE) * target.delta)
    count = Gaussian(float(calibrate(lambda z: Gaussian(z) + rest, epsilon=target.epsilon, delta=target.delta)))
    inner = Target(rest.nominal_epsilon, rest.nominal_delta)
    if settings is None:
        count_steps(MOST_RECORDS, expected, turns)
    for tried in NUMBERS:  # refuses settings before the number is released
        plan_for_records(tried, noise, inner)
    if released is None:
        pay(count + rest)
        query = Query((1,), 1.0, 1.0, 1.0, lambda source: np.array([records], np.int64))
        noisy = Gate(FixedPlan(count), source).release_gaussian(query, count.noise_multiplier).value[0]
        released = max(1, round(noisy))
    try:
        made = plan_for_records(released, noise, inner)
    except ValueError as error:
        raise ValueError(
            f"public_size must be given, a public number of records, or other settings: there is no plan for "
            f"{released}, which was released: {error}"
        ) from None
    made = dataclasses.replace(made, delta=target.delta, count=count, rest=rest)
    _warn_of_delta(made)
    return made


def _warn_of_delta(made: Plan) -> None:
    """Warns if delta is at least one over the number of records."""
    large = warn_of_large_delta(made.delta, made.records)
    if large:
        warnings.warn(f"{large} Choose a much smaller delta", stacklevel=4)
