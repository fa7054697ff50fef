"""tightdp verify: whether a model file, a statement as JSON or its page says what follows from its own account.

Everything is computed again: the bound from the account, the words from the values, the hash from the parameters, the
page from the statement. What the noise and the records were cannot be seen from a file. Exit code 0 says that all of it
agrees, 2 that something differs, which one line names, and 3 that another version wrote the words, which were not
checked, while the bound is right.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from .._core import __version__
from ..ledger import Ledger
from ..ledger.ledger import name_of
from ..statement import Statement
from ..statement.page import kept_in
from ..statement.recomputed import check_file
from ..tables.model import TableModel, read

EPILOG = """\
example:
  tightdp train people.csv --label owner --bounds age=18:90 --classes no,yes --epsilon 1 --delta 1e-5
  tightdp verify people.model.json
"""


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("file", type=Path, help="a model file, a statement as JSON, or the page of a statement")
    p.add_argument(
        "--model", type=Path, help="the model that the statement or page is about, if FILE is not that model"
    )
    p.add_argument("--ledger", metavar="LEDGER", help="also: this ledger was charged for it")
    p.add_argument(
        "--patient", action="store_true", help="take as long as it needs; else accounts that may take long are refused"
    )
    p.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Prints what was checked. ValueError, with one line, where something differs."""
    statement, checked = _checked(arguments.file, arguments.patient)
    if arguments.model is not None:
        hashed = read(
            arguments.model, lambda plain: TableModel.from_dict(plain, patient=arguments.patient)
        ).parameters_hash
        if statement.parameters != hashed:
            raise ValueError(f"{arguments.file}: is about {statement.parameters}, and {arguments.model} is {hashed}")
        checked.append(f"parameters: those of {arguments.model}, {hashed}")
    if arguments.ledger is not None:
        checked.append(_charged(arguments.file, statement, Ledger(arguments.ledger)))
    if arguments.json:
        print(json.dumps({"file": str(arguments.file), "guarantee": statement.guarantee, "checked": checked}))
    else:
        print("\n".join([f"{arguments.file}: {statement.guarantee}", *checked]))
    return 0 if statement.version == __version__ else 3


def _checked(file: Path, patient: bool) -> tuple[Statement, list[str]]:
    check_file(str(file), file)
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{file}: must be a model, a statement or its page, and is no text in UTF-8") from None
    kept = kept_in(text) if text.startswith("<!DOCTYPE html>") else None
    if kept is not None:
        return _page(file, text, kept, patient)
    return read(file, lambda plain: _of(plain, patient))


def _of(plain: Any, patient: bool) -> tuple[Statement, list[str]]:
    if isinstance(plain, dict) and "tightdp_model" in plain:
        model = TableModel.from_dict(plain, patient=patient)
        if model.statement.parameters is None and model.statement.date:
            raise ValueError("parameters must have their hash in the statement, which was taken out of it")
        if model.statement.parameters is None:
            return model.statement, [*_said(model.statement), "parameters: the statement has no hash of them"]
        return model.statement, [*_said(model.statement), f"parameters: have the hash {model.parameters_hash}"]
    if isinstance(plain, dict) and "tightdp_statement" in plain:
        statement = Statement.from_dict(plain, patient=patient)
        return statement, _said(statement)
    raise ValueError("must be a model or a statement that tightdp wrote, or the page of a statement")


def _page(file: Path, text: str, kept: str, patient: bool) -> tuple[Statement, list[str]]:
    try:
        statement = Statement.from_json(kept, patient=patient)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file}: {error}") from None
    if statement.to_html() != text:
        raise ValueError(f"{file}: must be the page of the statement that it holds, and shows something else")
    return statement, [*_said(statement), "page: is that of the statement, to the last character (line ends aside)"]


def _said(statement: Statement) -> list[str]:
    return [
        f"bound: computed again from the account, different mechanisms: {len(statement.charged.parts):,}",
        "words: follow from the values"
        if statement.version == __version__
        else f"words: those of version {statement.version}, which this one cannot check; the line above is its own",
        "not to be seen from a file: its date, the data set's name, and that noise was drawn as it says",
    ]


def _charged(file: Path, statement: Statement, ledger: Ledger) -> str:
    if statement.ledger is None or ledger.identity not in statement.ledger:
        raise ValueError(f"{file}: was not charged to this ledger, {ledger.identity}")
    if statement.ledger != name_of(ledger):
        raise ValueError(f"{file}: says that the ledger is {statement.ledger}, and it is {name_of(ledger)}")
    found = [
        entry.number
        for entry in ledger.history
        if sum((m * k for m, k in entry.releases), start=0) == statement.charged
    ]
    if not found:
        raise ValueError(f"{file}: the ledger has no entry of what the statement says was charged")
    return f"ledger: entry {', '.join(map(str, found))} of {ledger.dataset!r} is what was charged"
