"""The account of a run. It consists of mechanisms, and each mechanism is charged before its release is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...bound import Bound
from ...composition import Composition
from ...mechanisms import Mechanism
from ...release_gate.budget import FixedPlan
from .plan import Plan

FAILED = "!"
"""Mark of a failed step in a checkpoint."""


class RunAccount:
    """The account of the steps of a plan. It depends on mechanisms alone, and not on an optimizer or a loader."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._budget = FixedPlan(plan.mechanism * plan.steps)
        self.keep: Callable[..., object] = lambda steps, mark=".": None
        """Function that is called before the release of newly charged steps, with the number of these steps and their
        mark in the checkpoint."""
        self.note: Callable[[list[list[float]]], object] = lambda shares: None
        """Function that is called if the shares of ``norm_share_account.py`` are released. It gets a list with one pair
        for each epoch, the released share and its noise multiplier."""
        self.failures, self._accepted = 0, 0
        self.resumed = False
        """Whether the run continues a run whose state was saved by another object."""

    @property
    def current_plan(self) -> Plan:
        """The plan of the next step. ``NormShareAccount``, which releases shares of norms, overrides this property."""
        return self.plan

    @property
    def charged_steps(self) -> int:
        """Number of steps charged so far, including a step that failed after its charge."""
        return self._budget.spent_releases

    @property
    def remaining_steps(self) -> int:
        """Number of steps of the plan that are not charged yet."""
        return self.plan.steps - self.charged_steps

    @property
    def history(self) -> tuple[Mechanism, ...]:
        """The mechanisms that were charged so far, in order."""
        before = () if self.plan.count is None else (self.plan.count,)
        return before + (self.plan.mechanism,) * self.charged_steps

    def spend(self, steps: int = 1) -> None:
        """Charges steps, or raises ``BudgetExceeded`` and charges nothing. The call is atomic among threads."""
        self._budget.spend(self.plan.mechanism, steps)
        self.keep(steps)

    @property
    def has_begun(self) -> bool:
        """Whether a release that depends on gradients was charged."""
        return self.charged_steps > 0

    @contextmanager
    def end_plan_on_error(self) -> Iterator[None]:
        """Ends the run if the ``with`` body raises an error, because the error may reveal something about a record.

        An error before the first charge does not end the run.
        """
        try:
            yield
        except Exception:
            if self.has_begun and self.failures == self._accepted:
                self.failures += 1
                self.keep(1, FAILED)
            raise

    def check_planned_run_goes_on(self) -> None:
        """Raises RuntimeError if an error ended the run and was not accepted."""
        if self.failures > self._accepted:
            raise RuntimeError(
                f"this run was ended by an error after {self.charged_steps} charged steps: that it came may tell of a "
                f"record. Mend the cause and make another run, or go on by checkpoint=AfterFailure(folder), or by "
                f"load_state_dict(state, after_failure=True), which the statement then says"
            )

    def accept_failures_of_planned_run(self, number: int) -> None:
        """Lets the run go on although ``number`` errors ended it before."""
        self.failures = self._accepted = max(number, self.failures)

    def export_state(self) -> dict[str, Any]:
        """Returns the state from which a run can go on, as values that JSON can hold."""
        return {"steps": self.charged_steps, "failures": self.failures}

    def take_up_state_of_plan(self, state: dict[str, Any], steps: int) -> None:
        """Charges the steps by which a saved state is ahead of this account. The state has ``steps`` charged steps."""
        if steps > self.charged_steps:
            self.spend(steps - self.charged_steps)

    @property
    def charged_so_far(self) -> Composition:
        """Charge that the run has if it ends now."""
        return self.plan.charge_after(self.charged_steps)

    def epsilon(self, delta: float | None = None, **options: Any) -> Bound:
        return self.charged_so_far.epsilon(self.plan.delta if delta is None else delta, **options)
