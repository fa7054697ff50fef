"""Computes the claimed bound of a file again from its account, within limits on the work that a file may ask for."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from .._core import Budget
from ..accounting.running_accounts.accountant import Accountant
from ..bound import Bound
from ..composition import Composition
from ..mechanisms import Gaussian, PoissonSampled
from ..options import Neighbors
from .wording import format_above, format_below

MOST_VALUES = 100_000
"""Largest number of values in an account, such as the atoms of a distribution: they are read in a third of a second."""
MOST_ENTRIES = 1000
"""Largest number of entries of an account, and of mechanisms inside of others: making them takes half a second."""
MOST_SAMPLED = 64
"""Largest number of distinct entries that are not Gaussians: each takes up to 25 ms if only a Renyi bound exists."""
MOST_SLOW = 10
"""Largest number of distinct entries that are neither Gaussians nor their Poisson samples: each takes up to 0.1 s."""
UNITS = 10**9
"""Units of work for the bound: two seconds, and three and a half in the worst case that was found."""
FEW_UNITS = 10**8
"""Units of work for the check of a statement that is being made: enough if no engine takes long."""
PATIENT = "`tightdp verify --patient` takes the time"
"""Advice in errors about accounts that take long."""
TOLERANCE = 1e-6
"""Relative tolerance below the computed bound, since an account that grew step by step, or another processor, has other
last digits. A claim within it is raised to the computed bound, so that no claim is below a proved one."""
TOLERANCE_ABOVE = 1e-3
"""Relative tolerance above the computed bound. A claim that is too large does no harm: an engine may have become
tighter."""


def read_account_within_limits(plain: Any, patient: bool = False) -> Accountant:
    """Returns the account that ``Accountant.to_json`` wrote, as plain values. Raises ValueError for anything else, and,
    unless ``patient``, for an account whose answers may take seconds."""
    if not patient:
        _check_size(plain)
    account = Accountant._from_plain(plain, "account")
    if not patient:
        _check_distinct(account.composition)
    return account


def _check_size(account: Any) -> None:
    """Raises ValueError for an account that takes long to build, before it is built."""
    values = mechanisms = 0
    waiting = [account]
    while waiting:
        each = waiting.pop()
        values += 1
        if isinstance(each, dict):
            mechanisms += "type" in each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        # A list is put aside before its values are counted one by one.
        if values + len(waiting) > MOST_VALUES or mechanisms > 2 * MOST_ENTRIES:  # a sample and its mechanism are two
            raise ValueError(
                f"account must have at most {MOST_ENTRIES:,} mechanisms and {MOST_VALUES:,} values; {PATIENT}"
            )


def _check_distinct(charged: Composition) -> None:
    """Raises ValueError for an account of many different mechanisms that are not bounded at once."""
    others = [mechanism for mechanism, _ in charged.parts if not isinstance(mechanism, Gaussian)]
    slow = [each for each in others if not (isinstance(each, PoissonSampled) and isinstance(each.mechanism, Gaussian))]
    if len(others) > MOST_SAMPLED or len(slow) > MOST_SLOW:
        raise ValueError(
            f"account must have at most {MOST_SAMPLED} different mechanisms beside Gaussians, and {MOST_SLOW} beside "
            f"their Poisson samples, got {len(others)} and {len(slow)}; {PATIENT}"
        )


def certify_bound(claimed: Bound, charged: Composition, delta: float, neighbors: Neighbors) -> Bound:
    """Returns the claimed bound with a lower end that the account proves at this delta and relation.

    Raises ValueError if the claimed interval does not meet the one of the account: then it bounds something else. A
    claim may be too large, with a lower end of at most the account's.
    """
    for units in (FEW_UNITS, UNITS):
        found = _bound_within(units, charged, delta, neighbors)
        if claimed.upper < found.lower or claimed.lower > found.upper:
            raise ValueError(
                f"privacy must bound epsilon of what was charged at delta {format_above(delta)}, neighbors "
                f"{neighbors}, which is from {format_below(found.lower)} to {format_above(found.upper)}, got "
                f"{format_below(claimed.lower)} to {format_above(claimed.upper)}"
            )
        if claimed.lower <= found.lower:
            return claimed
    return replace(claimed, lower=found.lower)


@lru_cache(16)
def _bound_within(units: int, charged: Composition, delta: float, neighbors: Neighbors, engine: str = "auto") -> Bound:
    """Returns the bound that so many units of work give. A statement that is read asks for the same one twice."""
    with Budget(units):
        return charged.epsilon(delta, neighbors=neighbors, engine=engine)


def verify_claimed_bound(
    claimed: Bound, charged: Composition, delta: float, neighbors: Neighbors, *, ours: bool, patient: bool
) -> Bound:
    """Returns the bound that a statement may go on claiming. Raises ValueError if its account gives another one.

    ``ours`` says that this version wrote the statement, so that its answers must be the same.
    """

    def bound_charged_epsilon(engine: str = "auto") -> Bound:
        if patient:
            return charged.epsilon(delta, neighbors=neighbors, engine=engine)
        return _bound_within(UNITS, charged, delta, neighbors, engine)

    found = bound_charged_epsilon()
    loosest = found.upper
    if ours and claimed.upper > found.upper * (1 + TOLERANCE_ABOVE) and claimed.engine in ("grid", "prv", "renyi"):
        own = bound_charged_epsilon(claimed.engine)
        found = replace(found, lower=min(max(found.lower, own.lower), found.upper))
        loosest = max(loosest, own.upper)
    # The true epsilon is in both intervals, so an upper end below our lower end must be wrong.
    too_low = claimed.upper < max(found.upper * (1 - TOLERANCE), found.lower)
    too_high = claimed.upper > loosest * (1 + TOLERANCE_ABOVE) and ours
    crossed = claimed.lower > found.lower * (1 + TOLERANCE) + TOLERANCE
    if too_low or too_high or crossed:
        hint = "" if patient else f" (where that takes more than a second of work, {PATIENT})"
        raise ValueError(
            f"epsilon is said to be from {format_below(claimed.lower)} to {format_above(claimed.upper)} at delta "
            f"{format_above(delta)}, and what was charged gives {format_below(found.lower)} to "
            f"{format_above(found.upper)}{hint}"
        )
    return Bound(min(claimed.lower, found.lower), max(claimed.upper, found.upper), claimed.engine)
