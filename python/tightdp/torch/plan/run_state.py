"""The account of a run on disk, and back."""

from __future__ import annotations

import dataclasses
import re
import secrets
from typing import Any

from ... import _check
from ..._strict_json import check_entries, check_same, read_value
from .account import Account

VERSION = 1


def make_identity() -> str:
    """A name that no other run has. It tells an older state of the same run from that of another."""
    return secrets.token_hex(16)


def _plan_to_json(account: Account) -> dict[str, Any]:
    plain = {f.name: getattr(account.plan, f.name) for f in dataclasses.fields(account.plan)}
    return {
        name: repr(value) if name in ("count", "rest", "settings", "loss") else value for name, value in plain.items()
    }


def _list_shapes(parameters: dict[str, Any]) -> dict[str, list[int]]:
    return {name: list(p.shape) for name, p in parameters.items()}


def make_state(run: str, account: Account, parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        "tightdp_run": VERSION,
        "run": run,
        "plan": {**_plan_to_json(account), "max_norm": list(account.plan.max_norm)},
        "parameters": _list_shapes(parameters),
        **account.export_state(),
    }


def read_record_count(given: Any) -> int:
    """The number of records that a checkpoint's run goes by."""
    plan = given["plan"]
    return _read_count(plan.get("records") if isinstance(plan, dict) else None, "checkpoint.plan.records", 1)


def read_identity(given: Any, label: str) -> str:
    """Returns the name of the run whose state is given; ValueError for what ``make_state`` did not make."""
    if not isinstance(given, dict) or type(given.get("tightdp_run")) is not int or given["tightdp_run"] != VERSION:
        raise ValueError(f"{label} must be what state_dict of a run of format {VERSION} returned")
    check_entries(label, given, {*given, "run", "plan", "parameters", "steps", "failures"})
    name: str = read_value(str, given["run"], f"{label}.run")
    if not re.fullmatch("[0-9a-f]{32}", name):
        raise ValueError(f"{label}.run must be 32 hexadecimal digits, got {_check.describe_value(name)}")
    return name


def _read_count(plain: Any, name: str, least: int, most: int = _check.MAX_COUNT) -> int:
    return _check.count(name, read_value(int, plain, name), least, most)


def restore_state(
    given: Any,
    run: str,
    account: Account,
    parameters: dict[str, Any],
    label: str = "state",
    *,
    after_failure: bool = False,
) -> str:
    """Charges what the state holds beyond the account, and returns the identity to go on with."""
    name, expected = read_identity(given, label), make_state(run, account, parameters)
    try:
        check_same(given["plan"], expected["plan"], "plan")
    except ValueError as error:
        raise ValueError(f"{label} must be of a run with this plan, {expected['plan']}: {error}") from None
    try:
        check_same(given["parameters"], expected["parameters"], "parameters")
    except ValueError as error:
        raise ValueError(f"{label} must be of a run that trains the same parameters: {error}") from None
    check_entries(label, given, expected)
    steps = _read_count(given["steps"], f"{label}.steps", 0, account.plan.steps)
    if name != run and account.charged_steps:
        raise ValueError(f"{label} must be of this run, which has taken steps of its own: load it into a new one")
    failures = _read_count(given["failures"], f"{label}.failures", 0)
    if failures > account.failures and not after_failure:
        raise ValueError(
            f"{label} must be of a run that no error ended: that the error came may tell of a record. To go on, give "
            "checkpoint=AfterFailure(folder), or load_state_dict(state, after_failure=True), which the statement then "
            "says"
        )
    account.take_up(given, steps)
    account.accept_failures(failures)
    account.resumed |= name != run
    return name
