"""The budget of a question, for searches that Python does."""

from __future__ import annotations

from ... import _core


def affords(units: int) -> bool:
    """Charges the next piece of work of so many units, about a nanosecond each; False once the budget is spent, and
    then nothing is charged for what is not done."""
    return _core.work_charge(0) and _core.work_charge(units)
