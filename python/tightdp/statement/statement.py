"""The privacy statement, which is made from given values and writes itself as text, JSON or a page."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime, timezone
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from .._core import __version__
from .._support import _check
from .._support.strict_json import (
    check_json_entries,
    check_json_format,
    check_same_json,
    construct_from_strict_json,
    parse_json,
    read_json_value,
    read_strict_json_arguments,
)
from ..accounting.engines.auto import ANSWERED
from ..accounting.running_accounts.accountant import Accountant
from ..bound import Bound
from ..certificates import Certificate
from ..composition import Composition
from ..options import NEIGHBORS, Neighbors
from .recomputation import read_stated_account, replace_lower_end_of_statement, verify_bound_of_statement
from .wording import (
    ARITHMETIC,
    CERTIFIED,
    NEVER_COVERED,
    NOISE,
    RELATIONS,
    explain_statement_guarantee,
    format_stated_above,
    format_stated_below,
    list_stated_record_counts,
    make_statement_line,
)

FORMAT = 1
"""Number of the format of a statement as JSON."""
_VALUES = ("subject", "delta", "neighbors", "released", "public", "size", "taken", "arithmetic", "seeded", "outside",
         "ledger", "version", "settings", "parameters", "dataset", "date")  # fmt: skip
WORDS = ("guarantee", "meaning", "charged", "warnings", "not_covered", "check")
"""Entries of a statement as JSON that repeat its values in words. Reading a statement compares words and values."""
CHECKED_BY = "tightdp verify FILE"
"""Command that checks a statement."""
_CLAIMED_VALUES: Mapping[str, Any] = {"epsilon_lower": float | None, "epsilon": float | None, "engine": str}
"""Types of the entries that hold the claimed bound, by the entries' names."""
ENTRIES = ("tightdp_statement", "account", "certificate", *_CLAIMED_VALUES, *_VALUES, *WORDS)
"""Names of all entries of a statement as JSON."""
HASH = re.compile(r"sha256:[0-9a-f]{64}")
"""Form of the hash of released parameters."""
LARGE = 10.0
"""Epsilon above which a statement warns. An epsilon of 10 bounds likelihood ratios only by 22,000. Such a bound
excludes almost nothing."""


def describe_large_stated_delta(delta: float, size: int) -> str:
    """Returns a warning if delta is too large for ``size`` records, and otherwise an empty text."""
    if delta * size < 1:
        return ""
    least = format_stated_above(delta)
    return f"delta is {least}, which is at least 1/{size}: publishing a whole record at random would meet it."


@dataclass(frozen=True)
class Statement:
    """A bound on a release with the facts that it covers, assumes and leaves out.

    ``str(statement)`` is a text for readers, and ``to_json()`` keeps the whole statement. ``to_html()`` is a page for
    the person who answers for the release. This page shows the privacy profile and the trade-off curve, and loads
    nothing from elsewhere. A statement may be published wherever the release may. It says nothing about the records
    besides the release and the public facts.

    Parameters
    ----------
    subject : the release and the means by which it was made, in one line.
    privacy : ``Bound`` on the epsilon of ``charged`` at ``delta``. If only a smaller lower end can be proved from
        ``charged``, the statement has this smaller end. A bound that contradicts ``charged`` is refused.
    delta : the delta of the guarantee, in (0, 1).
    charged : the composition that the run was charged with.
    neighbors : the neighbouring relation of the guarantee.
    released : the parts that may be published, one line for each.
    public : the facts that were taken to be public, and how each is known, as in {"labels": "declared: no, yes"}.
    size : the number of records that the run used, given as public or released with noise. None if the run used no
        number of records.
    taken : the names in ``public`` of facts that were read off the data, and thereby declared public. A warning names
        each of these facts.
    arithmetic : "exact" if the release agrees with the charge to the last bit. "idealised gradients" if sums and noise
        are exact, but the gradients that are summed are not. Otherwise "idealised".
    seeded : whether the noise came from a seed.
    outside : things that this bound leaves out, besides those that every bound leaves out.
    ledger : the ledger that was charged, if there is one.
    settings : the settings of the run, by name.
    parameters : the hash of the released parameters, as "sha256:" and 64 digits, if it is known.
    dataset : the name of the data, if they have one.
    date : the day on which the statement was made, YYYY-MM-DD in UTC.
    version : the version of tightdp that computed the bound, as "1.2.3".
    certified : whether the statement carries a ``Certificate`` of its bound. ValueError is raised if the certificate
        would be too long.

    >>> import tightdp as dp
    >>> run = dp.Gaussian(5.0) * 1
    >>> statement = dp.Statement("a mean of 1,000 incomes", run.epsilon(1e-3), 1e-3, run, size=1000)
    >>> print(statement.warnings[0])
    delta is 0.001, which is at least 1/1000: publishing a whole record at random would meet it.
    >>> dp.Statement.from_json(statement.to_json()) == statement
    True
    """

    subject: str
    privacy: Bound
    delta: float
    charged: Composition
    neighbors: Neighbors = "add_or_remove"
    released: tuple[str, ...] = ()
    public: Mapping[str, str] = field(default_factory=dict)
    size: int | None = None
    taken: tuple[str, ...] = ()
    arithmetic: Literal["exact", "idealised gradients", "idealised"] = "exact"
    seeded: bool = False
    outside: tuple[str, ...] = ()
    ledger: str | None = None
    version: str = __version__
    """Version of the library that made the statement."""
    settings: Mapping[str, str] = field(default_factory=dict)
    parameters: str | None = None
    dataset: str | None = None
    date: str = field(default_factory=lambda: datetime.now(timezone.utc).date().isoformat(), compare=False)
    certified: bool = False

    __hash__ = None  # type: ignore[assignment]  # its mappings cannot be hashed

    def __post_init__(self) -> None:
        _check_statement_text("subject", self.subject)
        if not isinstance(self.privacy, Bound):
            raise TypeError(f"privacy must be a Bound, got {self.privacy!r}")
        if not isinstance(self.charged, Composition):
            raise TypeError(f"charged must be a Composition, got {self.charged!r}")
        _check.check_choice_argument("neighbors", self.neighbors, NEIGHBORS)
        _check.check_choice_argument("arithmetic", self.arithmetic, tuple(ARITHMETIC))
        _check.check_dataclass_arguments(self, _check.check_flag_argument, "seeded", "certified")
        values = {
            "delta": _check.open_unit("delta", self.delta),
            "public": _check_statement_texts("public", self.public),
            "settings": _check_statement_texts("settings", self.settings),
        }
        _check_statement_text("version", self.version)
        for name in ("ledger", "parameters", "dataset"):
            if getattr(self, name) is not None:
                _check_statement_text(name, getattr(self, name))
        if self.parameters is not None and not HASH.fullmatch(self.parameters):
            raise ValueError(f"parameters must be sha256: and 64 hexadecimal digits, got {self.parameters!r}")
        if not _is_statement_date(_check_statement_text("date", self.date)):
            raise ValueError(
                f"date must be YYYY-MM-DD, or empty where it is not known, got {_check.describe_argument(self.date)}"
            )
        if self.size is not None:
            values["size"] = _check.check_count_argument("size", self.size)
        for name in ("released", "taken", "outside"):
            given = getattr(self, name)
            if isinstance(given, str):
                raise TypeError(f"{name} must be a sequence of strings, got {given!r}")
            values[name] = tuple(_check_statement_text(name, line) for line in given)
        values["privacy"] = replace_lower_end_of_statement(self.privacy, self.charged, self.delta, self.neighbors)
        for name, value in values.items():
            object.__setattr__(self, name, value)
        known = list_stated_record_counts(self.public, self.released)
        if known and self.size not in known:
            listed = " or ".join(f"{each:,}" for each in dict.fromkeys(known))
            raise ValueError(
                f"size must be the number of records that public or released gives, {listed}, got {self.size}"
            )
        if not set(self.taken) <= set(self.public):
            raise ValueError(f"taken must name what is in public, got {self.taken!r}")
        if self.certificate is not None:
            self.certificate.to_json()  # raises ValueError if it is too long

    @property
    def guarantee(self) -> str:
        """The guarantee in one line."""
        return (
            f"({format_stated_above(self.privacy.upper)}, {format_stated_above(self.delta)})-differentially private, "
            f"{RELATIONS[self.neighbors]}; the bound is certified from {format_stated_below(self.privacy.lower)} to "
            f"{format_stated_above(self.privacy.upper)} ({self.privacy.engine})."
        )

    @property
    def certificate(self) -> Certificate | None:
        """The certificate from which ``tightdp.verify`` can prove the bound; None unless ``certified``."""
        if not self.certified:
            return None
        return Certificate(
            self.charged, self.neighbors, None, self.delta, float(self.privacy.lower), float(self.privacy.upper)
        )

    @property
    def meaning(self) -> tuple[str, ...]:
        """The meaning of epsilon and delta in two sentences.

        The tuple is empty if epsilon is too large, or if ``neighbors`` is "add" or "remove".
        """
        return explain_statement_guarantee(self.privacy.upper, self.delta, self.neighbors)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Facts that the person who signs must know and might not expect."""
        found = []
        if self.seeded:
            found.append("The noise was seeded: whoever knows the seed can subtract it. Do not release this model.")
        if self.size is not None and (large := describe_large_stated_delta(self.delta, self.size)):
            found.append(large)
        if self.privacy.upper > LARGE:
            found.append(
                f"epsilon is {format_stated_above(self.privacy.upper)}, above {LARGE:g}: by itself it excludes next to "
                "nothing. Look at the trade-off between errors."
            )
        if self.arithmetic == "idealised":
            found.append("Arithmetic is idealised: what the roundings of released numbers reveal is not covered.")
        if self.arithmetic == "idealised gradients":
            found.append(
                "Gradients are idealised: that their roundings may depend on other records is not covered. Their sums "
                "and the noise are exact."
            )
        found += [f"What was taken to be public was read off the data: {name}." for name in self.taken]
        return tuple(found)

    @property
    def not_covered(self) -> tuple[str, ...]:
        """Everything that the guarantee leaves out, with one line for each thing."""
        return (*self.outside, *NEVER_COVERED)

    def __str__(self) -> str:
        lines = [self.subject, self.guarantee, *self.meaning, f"Charged: {self.charged!r}"]
        settings = "; ".join(f"{name} {how}" for name, how in self.settings.items())
        lines += [f"Settings: {settings}."] if settings else []
        lines += [f"Released: {'; '.join(self.released)}."] if self.released else []
        lines += ["Public by assumption:"] if self.public else []
        lines += [f"  {name}: {how}" for name, how in self.public.items()]
        lines += [f"Arithmetic: {ARITHMETIC[self.arithmetic]}.", f"Noise: {NOISE[self.seeded]}."]
        lines += ["Left out of the bound:"] if self.outside else []
        lines += [f"  {each}" for each in self.outside]
        lines += [f"Ledger: {self.ledger}."] if self.ledger is not None else []
        lines += [f"Data: {self.dataset}."] if self.dataset is not None else []
        lines += [f"Parameters: {self.parameters}."] if self.parameters is not None else []
        lines.append(
            f"Made {self.date} by tightdp {self.version}." if self.date else f"Made by tightdp {self.version}."
        )
        lines += [f"Certificate: {CERTIFIED}."] if self.certified else []
        lines.append(f"Check with: {CHECKED_BY}")
        lines += [f"Warning: {warning}" for warning in self.warnings]
        return "\n".join(map(make_statement_line, lines))

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON: strings, numbers, lists and dicts. An infinite bound becomes None."""
        bound = self.privacy.to_dict()
        account = Accountant(neighbors=self.neighbors)
        if self.charged:
            account.compose(self.charged)
        return {
            "tightdp_statement": FORMAT,
            "subject": self.subject,
            "guarantee": self.guarantee,
            "meaning": list(self.meaning),
            "epsilon": bound["upper"],
            "epsilon_lower": bound["lower"],
            "engine": self.privacy.engine,
            "delta": self.delta,
            "neighbors": self.neighbors,
            "charged": repr(self.charged),
            "account": json.loads(account.to_json()),
            "released": list(self.released),
            "public": dict(self.public),
            "size": self.size,
            "taken": list(self.taken),
            "arithmetic": self.arithmetic,
            "seeded": self.seeded,
            "outside": list(self.outside),
            "ledger": self.ledger,
            "not_covered": list(self.not_covered),
            "warnings": list(self.warnings),
            "settings": dict(self.settings),
            "parameters": self.parameters,
            "dataset": self.dataset,
            "date": self.date,
            "version": self.version,
            "certificate": None if self.certificate is None else json.loads(self.certificate.to_json()),
            "check": CHECKED_BY,
        }

    def to_json(self) -> str:
        """Returns the whole statement as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, *, patient: bool = False) -> Statement:
        """Returns the statement that ``to_json`` wrote.

        Raises ValueError for any other text, and TypeError for anything that is not text. The bound is computed again
        from the account, and the words are derived again from the values. A difference raises ValueError. An account
        whose bound may take more than two seconds is refused unless ``patient`` is True.
        """
        try:
            plain = parse_json(_check_statement_text("text", text))
        except ValueError as error:
            raise ValueError(f"text must be what Statement.to_json wrote: {error}") from None
        return cls.from_dict(plain, patient=patient)

    @classmethod
    def from_dict(cls, plain: Any, *, patient: bool = False) -> Statement:
        """Returns the statement that ``to_dict`` wrote, checked as by ``from_json``.

        ``plain`` is the dictionary. A computation that may take more than two seconds is refused unless ``patient``.
        Raises ValueError for any other ``plain``, or if the bound is wrong.
        """
        check_json_format(plain, "tightdp_statement", FORMAT, "Statement.to_json")
        check_json_entries("text", plain, ENTRIES)
        given = read_strict_json_arguments(cls, plain, "", only=_VALUES)
        least, most, engine = (read_json_value(hint, plain[name], name) for name, hint in _CLAIMED_VALUES.items())
        claimed = _read_bound_of_statement(
            math.inf if least is None else least, math.inf if most is None else most, engine
        )
        account = read_stated_account(plain["account"], patient)
        if account.neighbors != given["neighbors"]:
            raise ValueError("neighbors must be those of the account")
        charged, ours = account.composition, given["version"] == __version__
        delta = _check.open_unit("delta", given["delta"])
        found = verify_bound_of_statement(claimed, charged, delta, account.neighbors, ours=ours, patient=patient)
        given |= {"privacy": found, "charged": charged, "certified": plain["certificate"] is not None}
        made: Statement = construct_from_strict_json(cls, given, "")
        said = copy(made)
        object.__setattr__(said, "privacy", claimed)  # the words state the claimed ends, not the computed ones
        words = () if ours else WORDS  # another version may use other words
        written = {name: value for name, value in said.to_dict().items() if name not in words}
        check_same_json({name: plain[name] for name in written}, written)
        return made

    def to_html(self) -> str:
        """Returns a page that stands alone, for a browser or a printer."""
        from .page import render_statement_page  # imported here because only pages need the curves

        return render_statement_page(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes ``to_html()`` to a file.

        ``path`` is the path of the file, which is overwritten. Raises OSError if the file cannot be written.
        """
        Path(path).write_text(self.to_html(), encoding="utf-8")

    def _repr_html_(self) -> str:
        """Returns the content of the page as HTML for notebooks."""
        from .page import render_statement_body

        return render_statement_body(self)


def _read_bound_of_statement(least: float, most: float, engine: str) -> Bound:
    """Returns the interval that a file claims. Raises ValueError if the ends cross or the engine does not exist."""
    if least > most or least < 0:
        raise ValueError(f"epsilon is said to be from {least!r} to {most!r}, and must be at least epsilon_lower")
    if not set(engine.split("+")) <= ANSWERED:
        raise ValueError(f"engine must be of {', '.join(sorted(ANSWERED))}, got {_check.describe_argument(engine)}")
    return Bound(least, most, engine)


def _is_statement_date(text: str) -> bool:
    try:
        return not text or datetime.strptime(text, "%Y-%m-%d").strftime("%Y-%m-%d") == text
    except ValueError:
        return False


def _check_statement_texts(name: str, given: Any) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} must be a mapping from names to texts, got {_check.describe_argument(given)}")
    return {_check_statement_text(name, key): _check_statement_text(name, value) for key, value in given.items()}


def _check_statement_text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {_check.describe_argument(value)}")
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise ValueError(f"{name} must be text that UTF-8 can hold, got {_check.describe_argument(value)}")
    return value
