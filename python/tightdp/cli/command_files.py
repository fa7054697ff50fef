"""Checks and helpers for the commands that read tables and write files beside them."""

from __future__ import annotations

import argparse
import csv
import os
import re
import secrets
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import StringIO
from pathlib import Path

from .._support.file_lock import LOCKS_FOLDERS, FileLock
from .._support.files import open_regular_file, read_file_text
from .._support.strict_json import MOST_BYTES, parse_json
from ..records.sources.rows import TextFormat
from ..statement import Statement
from ..statement.page import META_NAME, find_statement_in_page


def add_cli_file_format_arguments(p: argparse.ArgumentParser) -> None:
    """Adds the options that describe the format of CSV files."""
    p.add_argument("--delimiter", default=",", help="between cells, such as ; or tab (default: a comma)")
    p.add_argument("--encoding", default="utf-8-sig", help="of CSV files, such as latin-1 (default: UTF-8)")
    p.add_argument("--decimal", default=".", help="the decimal mark of numbers, a point or a comma (default: a point)")
    p.add_argument(
        "--missing",
        action="append",
        default=[],
        metavar="TEXT,...",
        help="cells that stand for nothing, as -999, in any column (default: only an empty cell, NA and the like)",
    )


def read_cli_file_format_arguments(arguments: argparse.Namespace) -> TextFormat:
    """Returns the format that the options describe."""
    delimiter = "\t" if arguments.delimiter in ("tab", "\\t") else arguments.delimiter
    missing = frozenset(text.strip() for option in arguments.missing for text in option.split(","))
    return TextFormat(delimiter, arguments.encoding, arguments.decimal, missing)


def make_cli_file_path_near_data(data: Path, suffix: str) -> Path:
    """Returns the path of a file beside the data. For the data people.csv.gz and the suffix .model.json, the path is
    people.model.json."""
    if not data.name:
        raise ValueError(f"{data}: must be a file of records")
    plain = data.with_suffix("") if data.suffix == ".gz" else data
    return plain.with_suffix(suffix)


def read_output_path(text: str) -> Path:
    """Returns the path that ``--out`` names. Raises an error of argparse for "" and "-", which name no file."""
    if text in ("", "-") or "\0" in text:
        raise argparse.ArgumentTypeError(
            f"must be the path of a file, got {text!r}; the standard output is what a command prints on without --out"
        )
    return Path(text)


LEDGER, MODEL, PAGE, FIGURE, TABLE = "ledger", "model", "page", "figure", "table"
"""Kinds of files that commands tell from other files before they replace one."""
_OUTPUT_MARKS = {
    LEDGER: ((b"SQLite format 3",), 64),
    MODEL: ((b'"tightdp_model"',), -1),
    PAGE: ((f'<meta name="{META_NAME}"'.encode(),), 1024),
    FIGURE: ((b"\x89PNG", b"%PDF", b"%!PS", b"<!DOCTYPE svg", b"\xff\xd8\xff", b"II*\0", b"MM\0*", b"WEBP"), 256),
}
"""Bytes by any of which a kind is known, and the number of bytes of a file to look at; -1 stands for all of them."""


def check_command_output(
    out: Path | None,
    force: bool | None,
    inputs: Iterable[Path | None] = (),
    writes: str | None = None,
    headers: Iterable[Sequence[str]] = (),
) -> None:
    """Raises ValueError, before any work, if ``out`` cannot be written or must not be replaced.

    None stands for the standard output. ``force`` is the command's option, or None for a command that has no such
    option. ``inputs`` are the files that the command reads, and ``writes`` is the kind of its output. None stands for
    a command that replaces no file. A TABLE is known by its first line, which is one of ``headers``.

    A file is replaced by one of its own kind alone, whatever ``force`` is. A model and a table are replaced only with
    ``force``. A page and a figure are replaced without ``force``; ``check_replaced_cli_page`` looks at the model of
    a page. A file that is read, a ledger and a symbolic link are never replaced, and no file is written through a link.
    """
    if out is None:
        return
    if not out.name or (out.exists() and not out.is_file()):
        raise ValueError(f"--out {out}: must be a file, and this is a folder, a pipe or a device")
    if out.is_symlink() and (out.is_file() or not out.exists()):
        raise ValueError(f"--out {out}: must be a file, and this is a link: name the file that it leads to")
    for given in inputs:
        if given is not None and given.exists() and out.exists() and out.samefile(given):
            raise ValueError(f"--out {out}: must not be a file that the command reads")
    _check_ledger_owns_no_cli_file(out)
    if out.is_file():
        _check_replaced_cli_file(out, force, writes, headers)
    if not out.parent.is_dir():
        raise ValueError(f"--out {out}: there is no folder {str(out.parent)!r}")
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        raise ValueError(f"--out {out}: cannot be written")


def _check_ledger_owns_no_cli_file(out: Path) -> None:
    """Raises ValueError if ``out`` has the name of a file that SQLite keeps beside a ledger and deletes."""
    for suffix in ("-journal", "-wal", "-shm"):
        ledger = out.with_name(out.name.removesuffix(suffix))
        if ledger != out and ledger.is_file() and _has_cli_file_mark(ledger, LEDGER):
            raise ValueError(f"--out {out}: belongs to the ledger {ledger}, which deletes it: name another file")


def _check_replaced_cli_file(
    out: Path, force: bool | None, writes: str | None, headers: Iterable[Sequence[str]]
) -> None:
    """Raises ValueError if a command that writes this kind must not replace the file ``out``."""
    found = next((kind for kind in _OUTPUT_MARKS if _has_cli_file_mark(out, kind)), None)
    if found is None and any(_has_cli_file_header(out, header) for header in headers):
        found = TABLE
    if found == LEDGER or (found == MODEL and writes != MODEL):
        raise ValueError(f"--out {out}: is a {found}, which holds what budget was spent on: name another file")
    if writes is None or found != writes:
        which = "" if writes is None else f", and is no {writes} of this command, which replaces no other file"
        raise ValueError(f"--out {out}: exists already{which}: name another file")
    if not force and found not in (PAGE, FIGURE):
        cost = ", and a model cost budget" if found == MODEL else ""
        raise ValueError(f"--out {out}: exists already{cost}: name another file, or give --force")


def _has_cli_file_header(path: Path, header: Sequence[str]) -> bool:
    """Tells whether the first line of a file has these names of columns, as commands write them."""
    line = StringIO()
    csv.writer(line, lineterminator="\n").writerow(header)
    expected = line.getvalue().encode()
    with open_regular_file(path) as file:
        return file.read(len(expected)) == expected


def check_replaced_cli_page(out: Path | None, statement: Statement, force: bool) -> None:
    """Raises ValueError if ``out`` is the page of another model than that of ``statement``, unless ``force``."""
    if out is None or force or not out.exists():
        return
    try:
        plain = parse_json(find_statement_in_page(read_file_text(out, MOST_BYTES)) or "")
    except ValueError:  # no text in UTF-8 is a ValueError too
        plain = None
    if statement.parameters is None or not isinstance(plain, dict) or plain.get("parameters") != statement.parameters:
        raise ValueError(f"--out {out}: is the page of another model: name another file, or give --force")


@contextmanager
def reserve_command_output(out: Path) -> Iterator[Path]:
    """Makes a new file beside ``out``, for ``put_command_output_in_place`` to rename. A file that was not renamed is
    removed at the end.

    Empty files that killed runs have left are removed as well. Only files whose lock is free are removed, because a
    live run holds the lock of its file. Raises ValueError if no file can be made, before anything is spent on the
    contents of the file.
    """
    place = out.with_name(f".{out.name}.{secrets.token_hex(4)}")
    try:
        place.touch(exist_ok=False)
    except OSError as error:
        raise ValueError(f"--out {out}: cannot be written ({error.strerror})") from None
    lock = _lock_command_output(place)
    try:
        _remove_abandoned_command_outputs(out)
        yield place
    finally:
        place.unlink(missing_ok=True)
        if lock is not None:
            lock.release_lock()


def _lock_command_output(place: Path) -> FileLock | None:
    """Returns the lock of a reserved file, or None if another run holds the lock or the system has no such locks."""
    if not LOCKS_FOLDERS:  # on Windows the lock would keep the model from being written
        return None
    try:
        return FileLock(place)
    except OSError:
        return None


def _remove_abandoned_command_outputs(out: Path) -> None:
    """Removes the empty files beside ``out`` that killed runs reserved.

    A reserved file that is not empty is kept, because it holds a model on which budget was spent.
    """
    name = re.compile(rf"{re.escape(f'.{out.name}.')}[0-9a-f]{{8}}")
    for each in [path for path in out.parent.iterdir() if name.fullmatch(path.name)]:
        with suppress(OSError):
            if each.is_symlink() or not each.is_file() or each.stat().st_size:
                continue
            lock = _lock_command_output(each)
            if lock is not None:
                each.unlink()
                lock.release_lock()


def put_command_output_in_place(place: Path, out: Path, force: bool) -> None:
    """Renames the reserved file ``place`` to ``out``.

    If another run has made ``out`` meanwhile and there is no ``force``, ``place`` is kept under another name. Then
    ValueError is raised, and its message has the other name.
    """
    try:
        if not force:
            return out.hardlink_to(place)
    except FileExistsError:
        kept = place.with_name(place.name.removeprefix("."))
        place.replace(kept)
        raise ValueError(f"--out {out}: was made by another run meanwhile: this one's model is in {kept}") from None
    except OSError:  # the file system has no hard links
        pass
    place.replace(out)


def _has_cli_file_mark(path: Path, kind: str) -> bool:
    """Tells whether a file has the mark of this kind."""
    marks, length = _OUTPUT_MARKS[kind]
    with open_regular_file(path) as file:
        seen = file.read(length)
    return any(mark in seen for mark in marks)


def check_standard_output() -> None:
    """Raises ValueError if nothing can be printed, before anything is spent on a release."""
    if sys.__stdout__ is None:
        raise ValueError("the standard output is closed: what is released could not be printed. Nothing was spent")


def print_cli_file_release(text: str) -> None:
    """Prints a release on standard output.

    If standard output cannot be written, the release is printed on standard error instead, because budget was spent on
    the release. ValueError is raised then.
    """
    try:
        print(text, flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discards the text that is still in its buffer
        print(text, file=sys.stderr)
        raise ValueError(f"the standard output cannot be written ({error.strerror}): the release is above") from None
