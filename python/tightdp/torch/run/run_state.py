"""Makes, checks and restores the saved state of a run's account."""

from __future__ import annotations

import dataclasses
import re
import secrets
from typing import Any

from ..._support import _check
from ..._support.strict_json import check_json_entries, check_same_json, read_json_value
from ..plan.run_account import RunAccount

VERSION = 2
"""Number of the format of a saved state. A state of another format is refused."""


def make_name_for_run_state() -> str:
    """Returns a random name for a run. A saved state has the name of its run, so states of other runs are noticed."""
    return secrets.token_hex(16)


def make_run_state(run: str, account: RunAccount, parameters: dict[str, Any]) -> dict[str, Any]:
    """Returns the state of a run, as values that JSON can hold: its name, plan, parameters and charges."""
    plan = {f.name: getattr(account.plan, f.name) for f in dataclasses.fields(account.plan)}
    plan |= {name: repr(plan[name]) for name in ("count", "rest", "settings", "loss")}
    return {
        "tightdp_run": VERSION,
        "run": run,
        "plan": {**plan, "max_norm": list(account.plan.max_norm)},
        "parameters": {name: list(p.shape) for name, p in parameters.items()},
        **account.export_state(),
    }


def read_record_count_of_run_state(given: Any) -> int:
    """Returns the number of records in the plan of a checkpoint's run."""
    plan = given["plan"]
    return _read_run_count(plan.get("records") if isinstance(plan, dict) else None, "checkpoint.plan.records", 1)


def read_name_from_run_state(given: Any, label: str) -> str:
    """Returns the name of the run in a state. Raises ValueError unless the state has the form of ``make_run_state``."""
    if not isinstance(given, dict) or type(given.get("tightdp_run")) is not int or given["tightdp_run"] != VERSION:
        raise ValueError(f"{label} must be what a run's state_dict returned, in format {VERSION}")
    check_json_entries(label, given, {*given, "run", "plan", "parameters", "steps", "failures"})
    name: str = read_json_value(str, given["run"], f"{label}.run")
    if not re.fullmatch("[0-9a-f]{32}", name):
        raise ValueError(f"{label}.run must be 32 hexadecimal digits, got {_check.describe_argument(name)}")
    return name


def _read_run_count(plain: Any, name: str, least: int, most: int = _check.MAX_COUNT) -> int:
    return _check.check_count_argument(name, read_json_value(int, plain, name), least, most)


def restore_run_state(
    given: Any,
    run: str,
    account: RunAccount,
    parameters: dict[str, Any],
    label: str = "state",
    *,
    after_failure: bool = False,
) -> str:
    """Brings the account to a saved state. Steps of the state that the account has not charged are charged.

    ``given`` is the saved state, and ``run`` is the name of the run that restores it. Returns the name of the saved
    run. Raises ValueError for a state of another plan, and for a run that an error ended unless ``after_failure``.
    """
    name, expected = read_name_from_run_state(given, label), make_run_state(run, account, parameters)
    try:
        check_same_json(given["plan"], expected["plan"], "plan")
    except ValueError as error:
        raise ValueError(f"{label} must be of a run with this plan, {expected['plan']}: {error}") from None
    try:
        check_same_json(given["parameters"], expected["parameters"], "parameters")
    except ValueError as error:
        raise ValueError(f"{label} must be of a run that trains the same parameters: {error}") from None
    check_json_entries(label, given, expected)
    steps = _read_run_count(given["steps"], f"{label}.steps", 0, account.plan.steps)
    if name != run and account.charged_steps:
        raise ValueError(f"{label} must be of this run, which has taken steps of its own: load it into a new one")
    failures = _read_run_count(given["failures"], f"{label}.failures", 0)
    if failures > account.failures and not after_failure:
        raise ValueError(
            f"{label} must be of a run that no error ended: the error itself may reveal something about a record. To "
            "go on, give checkpoint=AfterFailure(folder), or load_state_dict(state, after_failure=True). The "
            "statement will then mention the error"
        )
    account.take_up_state_of_plan(given, steps)
    account.accept_failures_of_planned_run(failures)
    account.resumed |= name != run
    return name
