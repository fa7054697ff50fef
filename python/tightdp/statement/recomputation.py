"""Computes the claimed bound of a file again from the file's account, within limits on the work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from .._core import Budget
from ..accounting.running_accounts.accountant import Accountant
from ..bound import Bound
from ..composition import Composition, Parts
from ..mechanisms import Gaussian, Mechanism, PoissonSampled
from ..mechanisms.selections_and_groups import SelectionOrGroup
from ..options import Neighbors
from .wording import format_stated_above, format_stated_below

MOST_VALUES = 100_000
"""Largest number of values in an account, such as the atoms of a distribution. Reading so many values takes a third of
a second."""
MOST_ENTRIES = 1000
"""Largest number of mechanisms on samples in an account. A mechanism on a sample counts as two mechanisms, and an
account may have twice this number of mechanisms, those inside of other mechanisms included. Constructing so many takes
half a second."""
MOST_OTHERS = 64
"""Largest number of distinct mechanisms that are not Gaussians, on samples or not, inside of groups and selections too.
Each of them takes up to 25 ms if only a Renyi bound is known."""
MOST_SLOW = 10
"""Largest number of distinct mechanisms that are neither Gaussians nor Poisson-sampled Gaussians. Each of them takes up
to 0.1 s."""
UNITS = 10**9
"""Largest number of units of work for the computation of a bound. So much work takes two seconds, and three and a half
seconds in the worst case that was found."""
FEW_UNITS = 10**8
"""Largest number of units of work for the first check of a statement that is being made."""
PATIENT = "`tightdp verify --patient` takes the time"
"""Advice that ends the errors about accounts whose bounds take long to compute."""
TOLERANCE = 1e-6
"""Relative amount by which a claim may be below the computed bound. The last digits depend on the processor, and on
whether the account was built in one step or in several. A claim within this tolerance is raised to the computed bound,
so no accepted claim is below a proved bound. A claim below the computed lower end is refused in any case."""
TOLERANCE_ABOVE = 1e-3
"""Relative amount by which a claim of this version may be above the computed bound. Claims of other versions have no
such limit, because an engine of an earlier version may have been less tight, and a larger claim does no harm."""


def read_stated_account(plain: Any, patient: bool = False) -> Accountant:
    """Returns the account for the plain values that ``Accountant.to_json`` wrote. Raises ValueError for anything else.

    Unless ``patient``, an account whose bounds may take seconds to compute raises ValueError too.
    """
    if not patient:
        _check_stated_account_size(plain)
    account = Accountant._from_plain(plain, "account")
    if not patient:
        _check_distinct_statement_mechanisms(account.composition)
    return account


def _check_stated_account_size(account: Any) -> None:
    """Raises ValueError for plain values from which it would take long to build an account."""
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
        # The total includes the values in ``waiting``, so a long list is refused before a walk through its values.
        if values + len(waiting) > MOST_VALUES or mechanisms > 2 * MOST_ENTRIES:  # a sampled mechanism counts as two
            raise ValueError(
                f"account must have at most {MOST_ENTRIES:,} mechanisms and {MOST_VALUES:,} values; {PATIENT}"
            )


def _check_distinct_statement_mechanisms(charged: Composition) -> None:
    """Raises ValueError for an account with many different mechanisms whose bounds take time.

    This is checked for the account's own entries, and again with groups and selections replaced by their mechanisms.
    """
    entries = [mechanism for mechanism, _ in charged.parts]
    for counted in (entries, list(_list_innermost_statement_mechanisms(charged.parts))):
        others = [mechanism for mechanism in counted if not isinstance(mechanism, Gaussian)]
        slow = [
            each for each in others if not (isinstance(each, PoissonSampled) and isinstance(each.mechanism, Gaussian))
        ]
        if len(others) > MOST_OTHERS or len(slow) > MOST_SLOW:
            raise ValueError(
                f"account must have at most {MOST_OTHERS} different mechanisms beside Gaussians, and {MOST_SLOW} "
                f"beside their Poisson samples, got {len(others)} and {len(slow)}; {PATIENT}"
            )


def _list_innermost_statement_mechanisms(parts: Parts) -> Iterator[Mechanism]:
    """Yields the mechanisms of a composition. A group or a selection is replaced by the mechanisms inside of it."""
    for mechanism, _ in parts:
        if isinstance(mechanism, SelectionOrGroup):
            yield from _list_innermost_statement_mechanisms(mechanism.parts)
        else:
            yield mechanism


def replace_lower_end_of_statement(claimed: Bound, charged: Composition, delta: float, neighbors: Neighbors) -> Bound:
    """Returns the claimed bound with a lower end that the account proves at this delta and relation.

    Raises ValueError if the claimed interval and the interval computed from the account have no point in common,
    because the claim then bounds something else. A claimed upper end that is too large is accepted. A claimed lower end
    above the computed one is replaced by the computed one.
    """
    for units in (FEW_UNITS, UNITS):
        found = _bound_stated_charge(units, charged, delta, neighbors)
        if claimed.upper < found.lower or claimed.lower > found.upper:
            raise ValueError(
                f"privacy must bound epsilon of what was charged at delta {format_stated_above(delta)}, neighbors "
                f"{neighbors}, which is from {format_stated_below(found.lower)} to {format_stated_above(found.upper)}, "
                f"got {format_stated_below(claimed.lower)} to {format_stated_above(claimed.upper)}"
            )
        if claimed.lower <= found.lower:
            return claimed
    return replace(claimed, lower=found.lower)


@lru_cache(16)
def _bound_stated_charge(
    units: int, charged: Composition, delta: float, neighbors: Neighbors, engine: str = "auto"
) -> Bound:
    """Returns the bound that ``units`` of work give. The bound is cached, because reading a statement needs this bound
    twice."""
    with Budget(units):
        return charged.epsilon(delta, neighbors=neighbors, engine=engine)


def verify_bound_of_statement(
    claimed: Bound, charged: Composition, delta: float, neighbors: Neighbors, *, ours: bool, patient: bool
) -> Bound:
    """Returns the bound that a verified statement may claim. Raises ValueError if its account gives another bound.

    ``ours`` says that this version of the library wrote the statement. The claimed upper end must then not exceed the
    computed one by more than ``TOLERANCE_ABOVE``.
    """

    def bound_stated_epsilon(engine: str = "auto") -> Bound:
        if patient:
            return charged.epsilon(delta, neighbors=neighbors, engine=engine)
        return _bound_stated_charge(UNITS, charged, delta, neighbors, engine)

    found = bound_stated_epsilon()
    loosest = found.upper
    if ours and claimed.upper > found.upper * (1 + TOLERANCE_ABOVE) and claimed.engine in ("grid", "prv", "renyi"):
        own = bound_stated_epsilon(claimed.engine)
        found = replace(found, lower=min(max(found.lower, own.lower), found.upper))
        loosest = max(loosest, own.upper)
    # If both bounds are right, the true epsilon is in both intervals. So an upper end below our lower end is wrong.
    too_low = claimed.upper < max(found.upper * (1 - TOLERANCE), found.lower)
    too_high = claimed.upper > loosest * (1 + TOLERANCE_ABOVE) and ours
    crossed = claimed.lower > found.lower * (1 + TOLERANCE) + TOLERANCE
    if too_low or too_high or crossed:
        hint = "" if patient else f" (where that takes more than a second of work, {PATIENT})"
        raise ValueError(
            f"epsilon is said to be from {format_stated_below(claimed.lower)} to {format_stated_above(claimed.upper)} "
            f"at delta {format_stated_above(delta)}, and what was charged gives {format_stated_below(found.lower)} to "
            f"{format_stated_above(found.upper)}{hint}"
        )
    return Bound(min(claimed.lower, found.lower), max(claimed.upper, found.upper), claimed.engine)
