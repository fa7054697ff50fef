"""Work is counted and never timed: whether a test passes must not depend on what else a machine does."""

import sys

from tightdp import _core

UNITS = 4e9
"""Units of the core, about a nanosecond each on an idle machine: what a question may spend."""
CALLS = 2e6
"""Calls of Python functions; a million take about a second."""


def counted(ask):
    """What ``ask`` returns, the units of work that this thread's core spent on it, and the calls that Python made."""
    calls, profile, before = 0, sys.getprofile(), _core.work_spent()

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        found = ask()
    finally:
        sys.setprofile(profile)
    return found, _core.work_spent() - before, calls


def bounded(ask, units=UNITS, calls=CALLS):
    """What ``ask`` returns, if that took no more work."""
    found, spent, called = counted(ask)
    assert spent <= units and called <= calls, f"{spent:.3g} units of work, {called:.3g} calls"
    return found
