"""The account of a run on disk, and back."""

from __future__ import annotations

import dataclasses
import secrets
from typing import Any

from .. import _check
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
        **account.state(),
    }


def records_of_state(given: Any) -> int:
    """The number of records that a checkpoint's run goes by."""
    plan = given.get("plan")
    return _check.count("the records of checkpoint", plan.get("records") if isinstance(plan, dict) else None)


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
    if not isinstance(given, dict) or given.get("tightdp_run") != VERSION:
        raise ValueError(f"{label} must be what state_dict of a run of format {VERSION} returned")
    expected = make_state(run, account, parameters)
    if given.get("plan") != expected["plan"]:
        raise ValueError(f"{label} must be of a run with this plan, {expected['plan']}, got {given.get('plan')}")
    if given.get("parameters") != expected["parameters"]:
        raise ValueError(f"{label} must be of a run that trains the same parameters: names or shapes differ")
    name, steps = given.get("run"), _check.count("steps", given.get("steps"), least=0, most=account.plan.steps)
    if not isinstance(name, str):
        raise ValueError(f"{label} must name its run, got {name!r}")
    if name != run and account.steps:
        raise ValueError(f"{label} must be of this run, which has taken steps of its own: load it into a new one")
    failures = _check.count("failures", given.get("failures", 0), least=0)
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
