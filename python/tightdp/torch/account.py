"""The account of a run: frozen mechanisms, charged before anything is looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..bound import Bound
from ..composition import Composition
from ..mechanisms import Mechanism
from ..train.releases.budget import FixedPlan
from .plan import Plan


class Account:
    """Steps within a plan. What is read here comes from mechanisms alone, never from an optimizer or a loader."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._budget = FixedPlan(plan.mechanism * plan.steps)
        self.keep: Callable[..., object] = lambda steps, mark=".": None
        """Called with the number of steps that were charged, before any of them is released."""

    @property
    def now(self) -> Plan:
        """The plan that the next step goes by."""
        return self.plan

    @property
    def steps(self) -> int:
        """Steps charged so far, one that failed on its way included."""
        return sum(count for _, count in self._budget.history)

    @property
    def remaining(self) -> int:
        return self.plan.steps - self.steps

    @property
    def history(self) -> tuple[Mechanism, ...]:
        """What was charged so far, in order."""
        before = () if self.plan.count is None else (self.plan.count,)
        return before + (self.plan.mechanism,) * self.steps

    def spend(self, steps: int = 1) -> None:
        """Charges steps, or raises ``BudgetExceeded`` and charges nothing; atomic among threads."""
        self._budget.spend(self.plan.mechanism, steps)
        self.keep(steps)

    def state(self) -> dict[str, Any]:
        """What a run that goes on must know, of what JSON has."""
        return {"steps": self.steps}

    def take_up(self, state: dict[str, Any], steps: int) -> None:
        """Charges what a state of so many steps holds beyond this account."""
        if steps > self.steps:
            self.spend(steps - self.steps)

    @property
    def so_far(self) -> Composition:
        return self.plan.after(self.steps)

    def epsilon(self, delta: float | None = None, **options: Any) -> Bound:
        return self.so_far.epsilon(self.plan.delta if delta is None else delta, **options)
