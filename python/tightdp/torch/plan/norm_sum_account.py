"""The account of DPIS with released sums of norms.

DPIS draws records by their gradient norms. The share of norms is the mean of the clipped gradient norms, divided by the
norm bound. An epoch may begin with the release of one or two noisy sums of norms. With ``adapt``, the first sum decides
the norm bound of the epoch. With ``norm_share=None``, the last sum decides the share and the noise of its steps.

The sums are used and charged as in ``tightdp.train`` (docs/theory/dpis.md, section 4). If the share is fixed, all steps
and sums are known in advance and composed exactly, whatever the norm bounds are. If the share is released, one Renyi
filter covers all sums and steps, whatever a sum decides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._support import _check
from ..._support.strict_json import check_json_entries, read_json_value
from ...accounting.running_accounts.filters import BudgetExceeded
from ...algorithms.dpis import DPIS
from ...clipping_and_noise import clipping
from ...clipping_and_noise.noise import RandomSource
from ...composition import Composition
from ...mechanisms import Gaussian, Mechanism
from ...models.contribution_grid import clip_model_contributions_to_grid
from ...release_gate.budget import FilterBudget
from ...release_gate.gate import Gate
from ...release_gate.oracle import norm_sum_query
from ..randomness.process_group import World
from .plan import Plan
from .run_account import RunAccount

_CHOSEN = ("share", "noise", "max_norm")
"""Names of the settings of an epoch that released sums of norms choose."""


class NormSumAccount(RunAccount):
    """The account of a run's steps and of its sums of norms. Each of them is charged before its release is computed.

    ``epochs`` has a dict for each epoch. "sums" is the number of charged sums of norms. This number exceeds that of the
    released sums if an error or a crash lost some. "share", "noise" and "max_norm" are the share of norms, the noise
    multiplier and the norm bound that the sums chose. An epoch without sums has none of the three, and follows the
    plan. "steps" is the number of charged steps.
    """

    def __init__(self, plan: Plan, size: int) -> None:
        super().__init__(plan)
        assert isinstance(plan.settings, DPIS) and plan.settings.norm_noise is not None
        self.settings, self._now = plan.settings, plan
        self.norm_noise = plan.settings.norm_noise
        """Noise multiplier of the sums of norms."""
        self._filter: FilterBudget | None = None
        if self.settings.norm_share is None:
            self._choice = plan.choose_by_epoch(size)
            self._budget = self._filter = self._choice.make_dpis_filter(plan.planned_steps)
        self.epochs: list[dict[str, Any]] = []

    @property
    def current_plan(self) -> Plan:
        return self._now

    @property
    def charged_steps(self) -> int:
        return sum(epoch["steps"] for epoch in self.epochs)

    @property
    def charged_sums(self) -> int:
        """Number of sums of norms charged so far."""
        return sum(epoch["sums"] for epoch in self.epochs)

    @property
    def history(self) -> tuple[Mechanism, ...]:
        before = () if self.plan.count is None else (self.plan.count,)
        return before + tuple(mechanism for mechanism, count in self._budget.history for _ in range(count))

    @property
    def charged_so_far(self) -> Composition:
        if self.plan.rest is None:
            return Composition(self._budget.history)
        return self.plan.charged if self.epochs else self.plan.charge_after(0)

    @property
    def must_begin_epoch(self) -> bool:
        """Whether sums of norms must choose the settings of an epoch before the next step."""
        if not self.epochs:
            return self.settings.count_norm_sums_of_epoch(0) > 0
        last = self.epochs[-1]
        return last["steps"] == self.plan.steps_per_epoch or (last["sums"] > 0 and "share" not in last)

    @property
    def adapts_norm_bound(self) -> bool:
        """Whether the epoch that begins releases a sum of norms for its norm bound.

        If the share of norms is fixed, the plan has one sum for each epoch but the first. If an error or a crash lost
        this sum, it stays charged, and the epoch keeps the norm bound of the epoch before.
        """
        begun = bool(self.epochs) and self.epochs[-1]["steps"] == 0
        lost = begun and self._filter is None
        return self.settings.adapt is not None and len(self.epochs) - begun > 0 and not lost

    def spend(self, steps: int = 1) -> None:
        if steps > self.remaining_steps:
            raise BudgetExceeded(f"all {self.plan.steps} steps of the plan were taken: make another run")
        self._budget.spend(self.current_plan.mechanism, steps)
        if not self.epochs:
            self.epochs.append({"sums": 0, "steps": 0})
        self.epochs[-1]["steps"] += steps
        self.keep(steps)

    @property
    def has_begun(self) -> bool:
        return bool(self.epochs)

    def spend_norm_sums_of_plan(self, number: int = 1) -> None:
        """Charges ``number`` sums of norms, for the current epoch or for a new one."""
        self._budget.spend(Gaussian(self.norm_noise), number)
        if not self.epochs or self.epochs[-1]["steps"]:
            self.epochs.append({"sums": 0, "steps": 0})
        self.epochs[-1]["sums"] += number
        self.keep(number, "n")

    def choose_epoch_settings(self, released: float | None, max_norm: float) -> None:
        """Chooses the settings of this epoch's steps, which have the norm bound ``max_norm``.

        The share of norms and the noise multiplier follow from ``released``, a sum of norms clipped at ``max_norm``.
        They are those of the plan if no such sum is released.
        """
        share, noise = self.settings.norm_share, self.plan.noise_multiplier
        if share is None:
            assert self._filter is not None and released is not None
            share, noise = self._choice.choose_dpis_share_and_noise(
                self._filter, len(self.epochs) - 1, released, max_norm
            )
        self._follow_epoch_settings(share, noise, max_norm)

    def _follow_epoch_settings(self, share: float, noise: float, max_norm: float) -> None:
        """Sets the plan of this epoch's steps, which have these settings."""
        settings = dataclasses.replace(self.settings, norm_share=share)
        made = dataclasses.replace(self.plan, settings=settings, noise_multiplier=noise, max_norm=(max_norm,))
        if not made.noise_deviation <= clipping.find_largest_release_deviation("int64", made.planned_grid_step):
            raise ValueError(f"epsilon must be larger: it would take a noise multiplier of {noise:g}")
        self.epochs[-1] |= dict(zip(_CHOSEN, (share, noise, max_norm), strict=True))
        self.note([[epoch[name] for name in _CHOSEN] for epoch in self.epochs if epoch["sums"]])
        self._now = made

    def export_state(self) -> dict[str, Any]:
        return {**super().export_state(), "epochs": [dict(epoch) for epoch in self.epochs]}

    def take_up_state_of_plan(self, state: dict[str, Any], steps: int) -> None:
        """Charges the sums of norms and the steps of a saved run, and restores what the sums chose.

        If this account already has charges, nothing changes. It then raises ValueError if the saved run has more steps
        or more sums: the sum that this account has not charged would be released a second time.
        """
        given = _check_epochs_of_norm_sums(state.get("epochs"), self.plan, steps)
        if self.epochs:
            if steps > self.charged_steps or sum(epoch["sums"] for epoch in given) > self.charged_sums:
                raise ValueError("state must not be ahead of a run that took steps: load it into a new one")
            return
        for epoch in given:
            if epoch["sums"]:
                self.spend_norm_sums_of_plan(epoch["sums"])
            if epoch["steps"]:
                if epoch["sums"]:
                    self._follow_epoch_settings(*(epoch[name] for name in _CHOSEN))
                self.spend(epoch["steps"])


def release_norm_sums_of_epoch(
    account: NormSumAccount, world: World, source: RandomSource, look: Callable[[], npt.NDArray[np.float64]]
) -> None:
    """Releases the noisy sums with which an epoch begins, and chooses the settings of the epoch from these sums.

    The sums are over the norms that ``look`` returns. ``look`` is called after the first charge. All processes hold all
    norms and draw the same noise, so all processes compute the same sums.
    """
    settings, max_norm = account.settings, account.current_plan.max_norm[0]
    gate = Gate(_ChargeOnRanks(account, world), source)

    def release_norm_sum(bound: float) -> float:
        """Releases the noisy sum of all norms, clipped at ``bound``."""

        def sum_clipped_norms(grid: float, source: RandomSource) -> npt.NDArray[np.int64]:
            return np.array([clip_model_contributions_to_grid(look(), bound, grid).sum()], np.int64)

        return float(gate.release_gaussian(norm_sum_query(bound, sum_clipped_norms), account.norm_noise).value[0])

    if account.adapts_norm_bound:
        most = settings.dpis_norm_bound_range[1]
        max_norm = settings.choose_dpis_norm_bound(release_norm_sum(most), account.plan.records)
    released = release_norm_sum(max_norm) if settings.norm_share is None else None
    with world.run_ranks_together("the share of the norms", share_of_the_norms=lambda: account.epochs[-1]):
        account.choose_epoch_settings(released, max_norm)


class _ChargeOnRanks:
    """A budget that charges the accounts of all processes together, for a ``Gate``."""

    def __init__(self, account: NormSumAccount, world: World) -> None:
        self._account, self._world = account, world

    def spend(self, mechanism: Mechanism) -> None:
        with self._world.run_ranks_together("the charge of the norms"):
            self._account.spend_norm_sums_of_plan()

    def charge(self) -> Composition:
        return self._account.plan.charged


def _check_epochs_of_norm_sums(given: Any, plan: Plan, steps: int) -> list[dict[str, Any]]:
    """Returns the epochs of a saved state. Raises ValueError unless they are possible for a run with this plan."""
    most, settings = plan.steps_per_epoch, plan.settings
    assert isinstance(settings, DPIS)
    if not isinstance(given, list) or not all(isinstance(epoch, dict) for epoch in given):
        raise ValueError("state must hold the epochs of a run that releases sums of norms")
    least_norm, largest_norm = settings.dpis_norm_bound_range
    for i, epoch in enumerate(given):
        sums = settings.count_norm_sums_of_epoch(i)
        names = _CHOSEN if sums and (epoch.get("steps") or "share" in epoch) else ()
        check_json_entries("an epoch in state", epoch, ("sums", "steps", *names))
        read = {name: read_json_value(float if name in names else int, epoch[name], name) for name in epoch}
        _check.check_count_argument(
            "the sums of an epoch in state",
            read["sums"],
            least=sums if epoch["steps"] else min(sums, 1),
            most=_check.MAX_COUNT if settings.norm_share is None else sums,
        )
        _check.check_count_argument(
            "the steps of an epoch in state", read["steps"], least=0 if i == len(given) - 1 else most, most=most
        )
        if names:
            _check.probability("the share of an epoch in state", read["share"])
            _check.positive("the noise of an epoch in state", read["noise"])
            if not least_norm <= read["max_norm"] <= largest_norm:
                raise ValueError(f"the max_norm of an epoch in state must be in [{least_norm:g}, {largest_norm:g}]")
    if sum(epoch["steps"] for epoch in given) != steps:
        raise ValueError(f"state must hold epochs with {steps} steps in all")
    return given


def make_run_account(plan: Plan, size: int) -> RunAccount:
    """Returns the account of a run that has this plan and trains ``size`` scalar parameters."""
    released = isinstance(plan.settings, DPIS) and plan.settings.norm_sum_count
    return NormSumAccount(plan, size) if released else RunAccount(plan)
