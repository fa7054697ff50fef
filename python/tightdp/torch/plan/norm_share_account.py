"""The account of DPIS with a released share of norms.

DPIS draws records by their gradient norms. The share of norms is the mean of the clipped gradient norms, divided by the
norm bound. Each epoch begins with the release of a noisy sum of norms. This sum decides the share and the noise of the
epoch's steps. The sum is used and charged as in ``tightdp.train``: one Renyi filter covers all sums and steps, whatever
a sum decides (docs/theory/dpis.md, section 4).
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
from ...release_gate.gate import Gate
from ...release_gate.oracle import norm_sum_query
from ..randomness.process_group import World
from .plan import Plan
from .run_account import RunAccount


class NormShareAccount(RunAccount):
    """The account of a run's steps and of its sums of norms. Each of them is charged before its release is computed.

    ``epochs`` has a dict for each epoch. "sums" is the number of charged sums of norms. This number is 1, plus 1 for
    each sum that was lost by an error or a crash. "share" and "noise" are the share of norms and the noise multiplier
    that the last sum chose. "steps" is the number of charged steps.
    """

    def __init__(self, plan: Plan, size: int) -> None:
        super().__init__(plan)
        assert isinstance(plan.settings, DPIS)
        self._settings, self._now = plan.settings, plan
        self._choice = plan.choose_by_epoch(size)
        self.norm_noise = self._choice.norm_noise
        """Noise multiplier of the sums of norms."""
        self._filter = self._choice.make_dpis_filter(plan.planned_steps)
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
        return before + tuple(mechanism for mechanism, count in self._filter.history for _ in range(count))

    @property
    def charged_so_far(self) -> Composition:
        return self.plan.charged if self.epochs else self.plan.charge_after(0)

    @property
    def must_release_share(self) -> bool:
        """Whether a sum of norms must be released before the next step."""
        last = self.epochs[-1] if self.epochs else {"steps": 0}
        return "share" not in last or last["steps"] == self.plan.steps_per_epoch

    def spend(self, steps: int = 1) -> None:
        if steps > self.remaining_steps:
            raise BudgetExceeded(f"all {self.plan.steps} steps of the plan were taken: make another run")
        self._filter.spend(self.current_plan.mechanism, steps)
        self.epochs[-1]["steps"] += steps
        self.keep(steps)

    @property
    def has_begun(self) -> bool:
        return bool(self.epochs)

    def spend_norm_sums_of_plan(self, number: int = 1) -> None:
        """Charges ``number`` sums of norms, for the current epoch or for a new one."""
        self._filter.spend(Gaussian(self.norm_noise), number)
        if not self.epochs or self.epochs[-1]["steps"]:
            self.epochs.append({"sums": 0, "steps": 0})
        self.epochs[-1]["sums"] += number
        self.keep(number, "n")

    def choose_norm_share_of_plan(self, released: float) -> None:
        """Chooses the share of norms and the noise multiplier of this epoch's steps from a released sum of norms."""
        self._follow_norm_share(
            *self._choice.choose_dpis_share_and_noise(
                self._filter, len(self.epochs) - 1, released, self.plan.max_norm[0]
            )
        )

    def _follow_norm_share(self, share: float, noise: float) -> None:
        """Sets the plan of this epoch's steps, which have this share of norms and this noise multiplier."""
        settings = dataclasses.replace(self._settings, norm_share=share)
        made = dataclasses.replace(self.plan, settings=settings, noise_multiplier=noise)
        if not made.noise_deviation <= clipping.find_largest_release_deviation("int64", made.planned_grid_step):
            raise ValueError(f"epsilon must be larger: it would take a noise multiplier of {noise:g}")
        self.epochs[-1] |= {"share": share, "noise": noise}
        self.note([[epoch["share"], epoch["noise"]] for epoch in self.epochs])
        self._now = made

    def export_state(self) -> dict[str, Any]:
        return {**super().export_state(), "epochs": [dict(epoch) for epoch in self.epochs]}

    def take_up_state_of_plan(self, state: dict[str, Any], steps: int) -> None:
        """Charges the sums of norms and the steps of a saved run, and restores the run's released shares.

        If this account already has charges, nothing changes. It then raises ValueError if the saved run has more steps.
        """
        given = _check_norm_share_epochs(state.get("epochs"), self.plan, steps)
        if self.epochs:
            if steps > self.charged_steps:
                raise ValueError("state must not be ahead of a run that took steps: load it into a new one")
            return
        for epoch in given:
            self.spend_norm_sums_of_plan(epoch["sums"])
            if epoch["steps"]:
                self._follow_norm_share(epoch["share"], epoch["noise"])
                self.spend(epoch["steps"])


def release_norm_share_of_plan(
    account: NormShareAccount, world: World, source: RandomSource, look: Callable[[], npt.NDArray[np.float64]]
) -> None:
    """Releases the noisy sum of the norms that ``look`` returns, and chooses the settings of this epoch from the sum.

    All processes hold all norms and draw the same noise, so all processes compute the same sum.
    """
    max_norm = account.plan.max_norm[0]

    def sum_norms_for_norm_share(grid: float, source: RandomSource) -> npt.NDArray[np.int64]:
        return np.array([clip_model_contributions_to_grid(look(), max_norm, grid).sum()], np.int64)

    gate = Gate(_ChargeOnRanks(account, world), source)
    released = float(
        gate.release_gaussian(norm_sum_query(max_norm, sum_norms_for_norm_share), account.norm_noise).value[0]
    )
    with world.run_ranks_together("the share of the norms", share_of_the_norms=lambda: account.epochs[-1]):
        account.choose_norm_share_of_plan(released)


class _ChargeOnRanks:
    """A budget that charges the accounts of all processes together, for a ``Gate``."""

    def __init__(self, account: NormShareAccount, world: World) -> None:
        self._account, self._world = account, world

    def spend(self, mechanism: Mechanism) -> None:
        with self._world.run_ranks_together("the charge of the norms"):
            self._account.spend_norm_sums_of_plan()

    def charge(self) -> Composition:
        return self._account.plan.charged


def _check_norm_share_epochs(given: Any, plan: Plan, steps: int) -> list[dict[str, Any]]:
    """Returns the epochs of a saved state. Raises ValueError unless they are possible for a run with this plan."""
    most = plan.steps_per_epoch
    if not isinstance(given, list) or not all(isinstance(epoch, dict) for epoch in given):
        raise ValueError("state must hold the epochs of a run whose share of norms is released")
    for i, epoch in enumerate(given, 1):
        names = ("share", "noise") if epoch.get("steps") or "share" in epoch else ()
        check_json_entries("an epoch in state", epoch, ("sums", "steps", *names))
        read = {name: read_json_value(float if name in names else int, epoch[name], name) for name in epoch}
        _check.check_count_argument("the sums of an epoch in state", read["sums"])
        _check.check_count_argument(
            "the steps of an epoch in state", read["steps"], least=0 if i == len(given) else most, most=most
        )
        if names:
            _check.probability("the share of an epoch in state", read["share"])
            _check.positive("the noise of an epoch in state", read["noise"])
    if sum(epoch["steps"] for epoch in given) != steps:
        raise ValueError(f"state must hold epochs with {steps} steps in all")
    return given


def make_run_account(plan: Plan, size: int) -> RunAccount:
    """Returns the account of a run that has this plan and trains ``size`` scalar parameters."""
    released = isinstance(plan.settings, DPIS) and plan.settings.norm_share is None
    return NormShareAccount(plan, size) if released else RunAccount(plan)
