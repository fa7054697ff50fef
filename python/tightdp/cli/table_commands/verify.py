"""tightdp verify: whether the claims of a statement follow from the account in it, that is from the listed mechanisms.

The statement is in a model file, in a JSON file, or in the page of the statement. The command also tells whether both
ends of a certificate, in a file of its own or in a statement, can be proved.

The command computes the bound again from the account, and the words of the statement from its numbers. It computes the
hash of a model's parameters, and the page that belongs to the statement. The output lists the entries in three groups.
Entries of the first group were computed again or proved, or the bound was computed from them. Entries of the second
group were compared with other entries, with the model or with the ledger. No file can show whether the entries of the
third group are true. Exit code 0 says that everything agrees. Exit code 2 says that something differs, and one line
names the difference. Exit code 3 says that the bound is right, but that another version wrote the words, which were not
checked.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..._core import __version__
from ..._support.files import read_file_text
from ..._support.strict_json import MOST_BYTES, parse_json, read_strict_json_file
from ...certificates import FORMAT as CERTIFICATE
from ...composition import Composition
from ...ledger import Entry, Ledger
from ...ledger.ledger import name_ledger
from ...ledger.payment import list_ledger_releases
from ...statement import Statement
from ...statement.page import find_statement_in_page
from ...statement.parameters import READERS
from ...statement.verdict import StatementVerdict, build_statement_verdict
from ...statement.wording import make_statement_line
from ...tables.model_file import TableModel


def add_command_arguments(p: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    p.add_argument(
        "file",
        type=Path,
        help="a model file, a statement as JSON, output of --json, the page of a statement, or a certificate",
    )
    p.add_argument(
        "--model",
        type=Path,
        help="the model that the statement or page is about, if FILE is not that model: a model file of tightdp train, "
        "or a state_dict as .pt or .safetensors (default: none)",
    )
    p.add_argument(
        "--ledger", metavar="LEDGER", help="also check that this ledger was charged for this release (default: none)"
    )
    p.add_argument(
        "--patient",
        action="store_true",
        help="take as long as it needs; else accounts and proofs that may take long are refused",
    )
    p.add_argument("--json", action="store_true", help="print JSON")


def run_command(arguments: argparse.Namespace) -> int:
    """Prints the verdict on the file. Raises ValueError, with a message of one line, if something differs.

    Returns the exit code, which is 2 for a certificate that was not proved.
    """
    if (certificate := _find_verify_command_certificate(arguments.file)) is not None:
        for option in ("model", "ledger"):
            if getattr(arguments, option) is not None:
                raise ValueError(f"{arguments.file}: is a certificate, which names no {option}: leave out --{option}")
        return _print_verify_command_certificate(arguments.file, certificate, arguments.json, arguments.patient)
    statement, verdict, at = _verify_command_file(arguments.file, arguments.patient)
    if arguments.model is not None:
        hashed = _hash_command_model(arguments.model, arguments.patient)
        if statement.parameters != hashed:
            raise ValueError(f"{arguments.file}: is about {statement.parameters}, and {arguments.model} is {hashed}")
        verdict.record_comparison(f"{at}parameters", f"is the hash of {arguments.model}")
    if arguments.ledger is not None:
        how = _verify_command_ledger_entry(arguments.file, statement, Ledger(arguments.ledger))
        verdict.record_comparison(f"{at}ledger", how)
        verdict.unseen[f"{at}ledger"] = "that no other release has this statement's identifier, which can be copied"
    parts = {"recomputed": verdict.recomputed, "compared": verdict.compared, "no file can show": verdict.unseen}
    if arguments.json:
        print(json.dumps({"file": str(arguments.file), "guarantee": statement.guarantee, **parts}))
    else:
        lines = [f"{arguments.file}: {statement.guarantee}"]
        for title, entries in parts.items():
            lines += [f"{title}:", *(f"  {entry}: {how}" for entry, how in entries.items())]
        print("\n".join(map(make_statement_line, lines)))  # a name of a file may have line ends
    return 0 if statement.version == __version__ else 3


def _find_verify_command_certificate(file: Path) -> str | None:
    """Returns the text of a file that is a certificate. Returns None for any other file."""
    try:
        text = read_file_text(file, MOST_BYTES)
    except UnicodeDecodeError:
        return None
    return text if text.startswith("{") and CERTIFICATE in text[:100] else None


def _print_verify_command_certificate(file: Path, text: str, as_json: bool, patient: bool) -> int:
    """Prints the steps of the checker's proof. Returns 0 if both ends are verified, and 2 if they are not."""
    found = verify_certificate_for_command(text, patient)
    if found is None:
        raise ValueError(f"{file}: is a certificate, whose checker {MISSING_CHECKER}")
    good, words = found
    if as_json:
        print(json.dumps({"file": str(file), "verified": good, "steps": words.split("\n")}))
    else:
        print("\n".join(map(make_statement_line, f"{file}: {words}".split("\n"))))
    return 0 if good else 2


def verify_certificate_for_command(text: str, patient: bool) -> tuple[bool, str] | None:
    """Returns whether both ends of a certificate are proved, with the steps of the proof. Returns None without
    python-flint."""
    try:
        from ... import verify
    except ImportError:
        return None
    return verify.verify_certificate(text, patient=patient)


def _record_verify_command_proof(plain: Any, verdict: StatementVerdict, patient: bool) -> None:
    """Adds to the verdict on a statement whether the certificate in its file is proved.

    ``plain`` is the statement as plain values. Raises ValueError if an end is not proved.
    """
    if plain["certificate"] is None:
        return
    found = verify_certificate_for_command(json.dumps(plain["certificate"]), patient)
    if found is None:
        verdict.unseen["certificate"] = f"that both ends are proved: the checker {MISSING_CHECKER}"
    elif found[0]:
        empty = "".join(f"; {line}" for line in found[1].split("\n") if line.startswith("the interval states nothing"))
        verdict.recomputed["certificate"] = f"both ends were proved by tightdp.verify, without the engines{empty}"
    else:
        steps = [line for line in found[1].split("\n") if "not verified" in line]
        raise ValueError(f"certificate: {steps[0]}")


def _hash_command_model(model: Path, patient: bool) -> str:
    """Returns the hash of the parameters in a model's file, which is read according to its suffix."""
    if model.suffix in READERS:
        return READERS[model.suffix](model)
    return read_strict_json_file(model, lambda plain: TableModel.from_dict(plain, patient=patient)).parameters_hash


MISSING_CHECKER = "needs python-flint: pip install python-flint"
"""End of a message about a certificate that cannot be checked here."""
RESULTS = {"model_file", "values", "accuracy", "matrix"}
"""Entries by which the --json output of a command is recognised. Each output has one of these entries beside the
statement."""
_CheckedFile = tuple[Statement, StatementVerdict, str]
"""The statement of a file, the verdict on the file, and the prefix of the statement's entries in the verdict."""


def _verify_command_file(file: Path, patient: bool) -> _CheckedFile:
    """Reads and checks a file: a model, a statement or its page."""
    try:
        text = read_file_text(file, MOST_BYTES)
    except UnicodeDecodeError:
        raise ValueError(f"{file}: must be a model, a statement or its page, and is no text in UTF-8") from None
    kept = find_statement_in_page(text) if text.startswith("<!DOCTYPE html>") else None
    if kept is not None:
        return _verify_command_page(file, text, kept, patient)
    return read_strict_json_file(file, lambda plain: _verify_command_values(plain, patient))


def _verify_command_values(plain: Any, patient: bool) -> _CheckedFile:
    """Checks a model or a statement that is given as plain values."""
    if isinstance(plain, dict) and "tightdp_model" in plain:
        model = TableModel.from_dict(plain, patient=patient)
        verdict = build_statement_verdict(model.statement)
        _record_verify_command_proof(plain["statement"], verdict, patient)
        verdict = verdict.place_under("statement")
        for entry in (each for each in plain if each != "statement"):
            verdict.record_comparison(entry, "is one of the entries that statement.parameters is the hash of")
        verdict.record_comparison(
            "columns", f"{verdict.compared['columns']}, and has the bounds and categories of the statement"
        )
        verdict.record_comparison("statement.parameters", f"is the hash of the other entries, {model.parameters_hash}")
        return model.statement, verdict, "statement."
    if isinstance(plain, dict) and "tightdp_statement" in plain:
        return *_verify_statement_for_command(plain, patient), ""
    if isinstance(plain, dict) and "statement" in plain and RESULTS & plain.keys():
        try:
            statement, verdict = _verify_statement_for_command(plain["statement"], patient)
        except ValueError as error:
            raise ValueError(f"statement: {error}") from None
        verdict = verdict.place_under("statement")
        verdict.unseen.update({entry: "that this is what was released" for entry in plain if entry != "statement"})
        return statement, verdict, "statement."
    raise ValueError("must be a model or a statement that tightdp wrote, or the page of a statement")


def _verify_statement_for_command(plain: Any, patient: bool) -> tuple[Statement, StatementVerdict]:
    """Returns the statement that is given as plain values, and the verdict on it."""
    statement = Statement.from_dict(plain, patient=patient)
    verdict = build_statement_verdict(statement)
    _record_verify_command_proof(plain, verdict, patient)
    return statement, verdict


def _verify_command_page(file: Path, text: str, kept: str, patient: bool) -> _CheckedFile:
    """Checks a page against the statement ``kept`` that it holds."""
    try:
        statement, verdict = _verify_statement_for_command(parse_json(kept), patient)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    if statement.to_html() != text:
        raise ValueError(f"{file}: must be the page of the statement that it holds, and shows something else")
    verdict.record_comparison("page", "is that of the statement, to the last character (line ends aside)")
    return statement, verdict, ""


def _verify_command_ledger_entry(file: Path, statement: Statement, ledger: Ledger) -> str:
    """Returns a line that names the ledger's entries for the release that a statement is about.

    Ledgers of older versions may have several entries for one identifier. Their charges add up.

    Raises ValueError if the ledger has no such entry, has another charge for the release, paid for other parameters, or
    is about other data.
    If the statement has no identifier of a release, its charge is compared with the entries that have no identifier.
    """
    if statement.ledger is None or ledger.identity not in statement.ledger:
        raise ValueError(f"{file}: was not charged to this ledger, {ledger.identity}")
    if statement.dataset not in (None, ledger.dataset):
        raise ValueError(f"{file}: is about {statement.dataset!r}, and the ledger is the budget of {ledger.dataset!r}")
    named = list_ledger_releases(ledger, statement.ledger)
    if not named and statement.ledger != name_ledger(ledger):
        raise ValueError(f"{file}: says that the ledger is {statement.ledger}, and it is {name_ledger(ledger)}")
    entries = [entry for entry in ledger.history if (entry.release in named if named else entry.release is None)]
    if not named:
        found = [entry.number for entry in entries if _sum_command_ledger_releases([entry]) == statement.charged]
        if not found:
            raise ValueError(
                f"{file}: the ledger has no entry without an identifier, or none with the charge of the statement"
            )
        numbers = ", ".join(map(str, found))
        return f"the amount is that of entry {numbers} of {ledger.dataset!r}, which does not say what it was for"
    lacking = [release for release in named if release not in {entry.release for entry in entries}]
    if lacking:
        raise ValueError(f"{file}: the ledger has no entry of this release, {', '.join(lacking)}")
    numbers = ", ".join(str(entry.number) for entry in entries)
    charged = _sum_command_ledger_releases(entries)
    if charged != statement.charged:
        raise ValueError(
            f"{file}: the ledger has no entry of what the statement says was charged: for this release it has entry "
            f"{numbers}, {charged!r} in all"
        )
    recorded = ledger.read_parameters(named[-1])
    if recorded not in (None, statement.parameters):
        raise ValueError(f"{file}: is about {statement.parameters}, and the ledger paid for {recorded}")
    which = "does not know which parameters were released" if recorded is None else "has the hash of its parameters"
    return f"entry {numbers} of {ledger.dataset!r} is what was charged for this release; the ledger {which}"


def _sum_command_ledger_releases(entries: Sequence[Entry]) -> Composition:
    """Returns all charges of these entries of a ledger as one composition."""
    return sum((m * k for entry in entries for m, k in entry.releases), start=Composition())
