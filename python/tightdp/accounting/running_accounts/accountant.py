"""A running account: the releases so far, and bounds on their privacy loss."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..._support import _check
from ..._support.strict_json import check_json_format, construct_from_strict_json, parse_json, read_json_object
from ...bound import Bound
from ...composition import Composable, Composition
from ...mechanisms import Mechanism
from ...mechanisms.mechanism_json import from_mechanism_json, to_mechanism_json
from ...options import NEIGHBORS, AccuracyOptions, Neighbors, accept_options_as_arguments
from .growing_account import GrowingAccount
from .shared_state import Entries, SharedAccountState, list_running_account_entries

if TYPE_CHECKING:
    from typing_extensions import Unpack

_VERSION = 1
_ADVICE = (
    "releases recorded in the child process would be missing in the parent's account. For a separate account, use "
    "copy.copy(account) in the child"
)
_WAITING = 256
"""Largest number of releases that wait to be merged into the composition. If the composition has more distinct
mechanisms than this, their number is the limit. With this limit, merging takes a constant time for each release on
average, and no computation of a bound has to merge a long list first."""
_State = tuple[Entries, Composition, int]
"""The history, the composition of the whole history, and the number of further releases that may wait to be merged."""


class Accountant:
    """Collects releases whose mechanisms were fixed in advance, and bounds their privacy loss at any time.

    The choice of the next mechanism must not depend on earlier outputs. If it does, use ``PrivacyFilter``.
    Two accountants are equal if they have the same history and the same neighbouring relation ``neighbors``.

    Any number of threads may record releases and ask for bounds at the same time. No release is lost, and an answer
    covers all releases that were recorded when the question was asked. A forked child process can read its parent's
    account, but adding to it raises RuntimeError there. A copy, by ``copy`` or ``pickle``, is a new account, which
    belongs to the process that made the copy.

    Calls of ``epsilon`` after every step of a run of Gaussians share work: each call continues from the results of the
    call before. The bounds are certified all the same, but their last digits may depend on earlier calls. With
    ``keep=False`` every bound is the bound of ``composition.epsilon``.

    Parameters
    ----------
    neighbors : the neighbouring relation of bounds, unless the call for a bound names another relation.
    keep : with True, bounds on epsilon continue from the work for earlier bounds. With False, each bound is computed
        anew.

    >>> import tightdp as dp
    >>> account = dp.Accountant()
    >>> account.compose(dp.PoissonSampled(dp.Gaussian(1.0), 0.01), count=1000)
    >>> round(account.epsilon(1e-5).upper, 6)
    1.828237
    >>> dp.Accountant.from_json(account.to_json()) == account
    True
    """

    def __init__(self, *, neighbors: Neighbors = "add_or_remove", keep: bool = True) -> None:
        _check.check_choice_argument("neighbors", neighbors, NEIGHBORS)
        keep = _check.check_flag_argument("keep", keep)
        self.neighbors: Neighbors = neighbors
        self._growing = GrowingAccount() if keep else None
        self._shared: SharedAccountState[_State] = SharedAccountState((None, Composition(), _WAITING), _ADVICE)

    def compose(self, mechanism: Composable, count: int = 1) -> None:
        """Records ``count`` releases of a mechanism, or of a composition as a whole.

        ``count`` is an integer in [1, 2^53]. Raises TypeError if ``mechanism`` is neither a mechanism nor a
        composition, and ValueError for ``count`` out of its range.
        """
        if not isinstance(mechanism, Composable):
            raise TypeError(f"mechanism must be a Mechanism or a Composition, got {mechanism!r}")
        count = _check.check_count_argument("count", count)
        releases = ((mechanism, 1),) if isinstance(mechanism, Mechanism) else mechanism._to_composition().parts
        added = mechanism * count

        def append_running_account_releases(before: _State) -> _State:
            """Returns the state with the releases appended to the history and added to the composition."""
            entries, composition, room = before
            if room <= 0:
                room = max(_WAITING, len(composition.parts))  # reading ``parts`` merges the waiting releases
            for each, inner in releases:
                if entries is not None and entries[1] == each:
                    entries = (entries[0], each, entries[2] + inner * count)
                else:
                    entries = (entries, each, inner * count)
            return entries, composition + added, room - len(releases)

        self._shared.update_state(append_running_account_releases)

    @property
    def history(self) -> tuple[tuple[Mechanism, int], ...]:
        """The releases in order. Equal releases in a row are one entry with their number."""
        return list_running_account_entries(self._shared.state[0])

    @property
    def composition(self) -> Composition:
        """The composition of everything released so far."""
        return self._shared.state[1]

    @accept_options_as_arguments
    def epsilon(self, delta: float, *, neighbors: Neighbors | None = None, **options: Unpack[AccuracyOptions]) -> Bound:
        """Returns bounds on epsilon at ``delta`` for everything released so far. Both ends are 0 before a release.

        ``delta`` is in [0, 1). ``neighbors`` defaults to the relation of the account, and ``engine``, ``width``,
        ``eps_error`` and ``delta_error`` are as for ``Composition.epsilon``, whose errors this method raises.
        """
        relation = neighbors or self.neighbors
        state = self._shared.state
        kept = None if options else self._kept_epsilon(state, relation, delta)
        return state[1].epsilon(delta, neighbors=relation, **options) if kept is None else kept

    def _kept_epsilon(self, state: _State, relation: Neighbors, delta: float) -> Bound | None:
        """Returns bounds on epsilon that continue from the work for earlier bounds.

        Returns None if earlier work is not kept, or if ``GrowingAccount.epsilon`` does not serve the account.
        """
        return None if self._growing is None else self._growing.epsilon(state[0], relation, delta)

    @accept_options_as_arguments
    def delta(self, epsilon: float, *, neighbors: Neighbors | None = None, **options: Unpack[AccuracyOptions]) -> Bound:
        """Returns bounds on delta at ``epsilon`` of everything released so far.

        ``epsilon`` is a finite number, in nats. ``neighbors`` defaults to the relation of the account, and
        ``engine``, ``width``, ``eps_error`` and ``delta_error`` are as for ``Composition.epsilon``, whose errors this
        method raises.
        """
        return self.composition.delta(epsilon, neighbors=neighbors or self.neighbors, **options)

    def __len__(self) -> int:
        """Returns the number of releases."""
        return sum(count for _, count in self.history)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Accountant):
            return NotImplemented
        return self.neighbors == other.neighbors and self.history == other.history

    __hash__ = None  # type: ignore[assignment]  # an account changes

    def __repr__(self) -> str:
        return f"<Accountant of {self.composition!r}, neighbors={self.neighbors!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_running_account, (type(self), self.neighbors, self.history, self._growing is not None)

    def to_json(self) -> str:
        """Returns the account as JSON text. Doubles are written exactly."""
        history = [{"mechanism": to_mechanism_json(mechanism), "count": count} for mechanism, count in self.history]
        return json.dumps({"tightdp_accountant": _VERSION, "neighbors": self.neighbors, "history": history})

    @classmethod
    def from_json(cls, text: str) -> Accountant:
        """Returns the account that ``to_json`` wrote.

        Raises ValueError for any other text, such as one with unknown or missing entries or with mechanisms that are
        not public. Raises TypeError if ``text`` is not a string.
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be what Accountant.to_json wrote, got {_check.describe_argument(text)}")
        try:
            plain = parse_json(text)
        except ValueError as error:
            raise ValueError(f"text must be what Accountant.to_json wrote: {error}") from None
        return cls._from_plain(plain, "text")

    @classmethod
    def _from_plain(cls, plain: Any, name: str) -> Accountant:
        """Returns the account from its parsed JSON. ``name`` tells error messages where in the file the account is."""
        check_json_format(plain, "tightdp_accountant", _VERSION, "Accountant.to_json")
        found = read_json_object(_File, plain, name, _read_accountant_entry)
        account = cls(neighbors=found.neighbors)
        for k, entry in enumerate(found.history):
            at = {"mechanism": entry.mechanism, "count": entry.count}
            construct_from_strict_json(account.compose, at, f"{name}.history[{k}]")
        return account


@dataclass(frozen=True)
class _Entry:
    """One entry of the history in an account's file."""

    mechanism: Mechanism
    count: int


@dataclass(frozen=True)
class _File:
    """The fields of the JSON object in an account's file."""

    tightdp_accountant: int
    neighbors: Neighbors
    history: tuple[_Entry, ...]


def _read_accountant_entry(hint: Any, plain: Any, name: str) -> Any:
    """Returns an entry of the history, or a mechanism, from its parsed JSON."""
    return (
        read_json_object(hint, plain, name, _read_accountant_entry)
        if hint is _Entry
        else from_mechanism_json(hint, plain, name)
    )


def _restore_running_account(
    cls: type[Accountant], neighbors: Neighbors, history: tuple[tuple[Mechanism, int], ...], keep: bool = True
) -> Accountant:
    """Returns the account with the given history. Copies and pickles of an account are built by this function."""
    account = cls(neighbors=neighbors, keep=keep)
    for mechanism, count in history:
        account.compose(mechanism, count)
    return account
