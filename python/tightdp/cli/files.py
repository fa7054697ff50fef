"""What the commands share that read tables and write files beside them."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..tables.rows import Format


def add_arguments(p: argparse.ArgumentParser) -> None:
    """How CSV files are written."""
    p.add_argument("--delimiter", default=",", help="between cells, such as ; or tab (default: a comma)")
    p.add_argument("--encoding", default="utf-8-sig", help="of CSV files, such as latin-1 (default: UTF-8)")


def written(arguments: argparse.Namespace) -> Format:
    return Format("\t" if arguments.delimiter in ("tab", "\\t") else arguments.delimiter, arguments.encoding)


def beside(data: Path, suffix: str) -> Path:
    """people.csv.gz gives people.model.json."""
    if not data.name:
        raise ValueError(f"{data}: must be a file of records")
    plain = data.with_suffix("") if data.suffix == ".gz" else data
    return plain.with_suffix(suffix)


def keep_apart(option: str, out: Path, given: Path | None) -> None:
    """ValueError if ``out`` would replace what is read."""
    if given is not None and given.exists() and out.exists() and out.samefile(given):
        raise ValueError(f"{option} {out}: must not be the file that records are read from")


def keep_model(out: Path, force: bool) -> None:
    """ValueError if there is a file already: it may be a model, which cost budget that nothing brings back."""
    if out.is_file() and not force:
        raise ValueError(f"--out {out}: exists already, and a model cost budget: name another file, or give --force")
    if out.is_file() and _begins(out, b"SQLite format 3"):
        raise ValueError(f"--out {out}: is a ledger, and --force replaces models alone: name another file")


def keep_budget(out: Path) -> None:
    """ValueError if ``out`` would replace a model or a ledger, for which budget was spent."""
    if out.is_file() and (_begins(out, b"SQLite format 3") or _begins(out, b'"tightdp_model"')):
        raise ValueError(
            f"--out {out}: is a model or a ledger, which holds what budget was spent on: name another file"
        )


def _begins(path: Path, mark: bytes) -> bool:
    """Whether the mark is among the first bytes."""
    with path.open("rb") as file:
        return mark in file.read(64)
