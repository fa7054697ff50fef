"""A folder from which a run goes on: what was charged, before it is released, and the tensors that were saved last."""

from __future__ import annotations

import json
import os
import pickle
import re
import secrets
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch

from .._file_lock import FileLock
from ..ledger import Ledger
from ..ledger.progress import Progress
from .account import FAILED, Account

FORMAT = 1
_locks: WeakValueDictionary[Path, FileLock] = WeakValueDictionary()
"""The locks of the folders that this process holds."""
_holders: WeakValueDictionary[Path, Checkpoint] = WeakValueDictionary()
"""The checkpoint that may write to each of them."""
_marking = threading.Lock()
"""Held while a mark is written or a folder is taken over, so that whoever takes it over has seen all marks."""


class Checkpoint:
    """The files of one run. One process at a time holds a folder; a later run of the same process takes it over.

    The process that made it holds the lock of the file ``lock``, and its forked children do not.

    ``run.json`` says which run it is and what it releases. ``charged`` has a byte for each step that was charged, ".",
    for each sum of norms, "n", and for each step that failed, "!": it is charged once its byte is on the disk.
    ``shares.json`` has the share of norms and the noise multiplier of each epoch where these are released.
    ``tensors.pt`` has the model's and the optimizer's as they were saved last. With a ledger, ``turns.json`` names the
    turns of this run, each with the number of charges before it, and the ledger knows the last charge and its turn: a
    copy of the folder that falls behind is refused (docs/theory/filters.md, section 11).

    Each file is written beside its place and put there whole, so a crash leaves the one before. Only the user who
    trains can read them, and a folder that is made here.
    """

    def __init__(self, folder: Any, ledger: Ledger | None = None) -> None:
        if not isinstance(folder, (str, os.PathLike)) or not os.fspath(folder):
            raise TypeError(f"checkpoint must be the path of a folder, got {folder!r}")
        path = Path(folder).absolute()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder = path.resolve()
            self._lock = _hold_folder(self.folder)
        except BlockingIOError:
            raise ValueError(
                "checkpoint must not be in use: another process holds it, and may take its steps"
            ) from None
        except OSError as error:
            raise ValueError(
                f"checkpoint must be a folder that can be written, on a file system that has locks: {error}"
            ) from None
        self._ledger, self._run = ledger, ""
        self._progress: Progress | None = None
        """What the ledger knows of this run, as this folder last heard of it."""
        self._turn, self._charges = "", 0
        self._seen = b""
        """The marks that the folder had when it was read."""

    def read(self, about: dict[str, Any]) -> dict[str, Any] | None:
        """The state of the run that the folder holds, as ``run_state.make_state`` made it; None where there is none.

        ValueError unless that run was begun with the same ``about``.
        """
        self._seen = self._read_marks()
        if not (self.folder / "run.json").exists():
            if (self.folder / "tensors.pt").exists() or self._seen:
                raise self._refuse_damaged("run.json")
            return None
        try:
            found = json.loads((self.folder / "run.json").read_text())
            format, state, begun = found["format"], dict(found["state"]), dict(found["about"])
        except (ValueError, TypeError, KeyError, RecursionError):
            raise self._refuse_damaged("run.json") from None
        if format != FORMAT:
            raise ValueError(
                f"checkpoint must be of format {FORMAT}, got {format!r}: another version of tightdp made it"
            )
        for name, value in about.items():
            if begun.get(name) != value:
                raise ValueError(
                    f"checkpoint must be of a run with this {name}, {value!r}, got one with {begun.get(name)!r}: it "
                    "goes on as it was begun. Nothing was spent"
                )
        if not (self.folder / "charged").exists():
            raise self._refuse_damaged("charged")
        self._check_newest(state.get("run"))
        found = {**state, "steps": self._count_steps(), "failures": self._read_marks().count(FAILED.encode())}
        return {**found, "epochs": self._read_epochs()} if "epochs" in state else found

    def begin(self, state: dict[str, Any], about: dict[str, Any]) -> None:
        """Makes the folder that of a run which was paid for, and has taken no step."""
        text = json.dumps({"format": FORMAT, "about": about, "state": state}, indent=1)
        with _marking:
            self._check_unchanged(not (self.folder / "run.json").exists())
            self._put_file("charged", lambda path: path.touch())
            if self._ledger is not None:
                self._put_file("turns.json", lambda path: path.write_text("[]"))
            self._put_file("run.json", lambda path: path.write_text(text))

    def record_charges(self, account: Account, run: str) -> None:
        """Records here whatever the account charges from now on; no run that was made before may write here."""
        with _marking:
            self._check_unchanged(self._read_marks() == self._seen)
            _holders[self.folder] = self
        self._run, self._charges, self._turn = run, len(self._read_charges()), secrets.token_hex(8)
        if self._ledger is not None:
            turns = [*self._read_turns(), [self._charges, self._turn]]
            self._put_file("turns.json", lambda path: path.write_text(json.dumps(turns)))
        account.keep, account.note = self.charge, self.note

    def charge(self, steps: int, mark: str = ".") -> None:
        """Returns once so many steps more, or what else the mark stands for, are on the disk and then in the ledger.

        In this order: the folder that goes on is never behind its ledger, wherever the process is killed.
        """
        self._write_marks(mark * steps)
        if mark == FAILED:
            return
        self._charges += steps
        if self._ledger is not None:
            now = Progress(self._charges, self._turn)
            self._ledger.record_progress(self._run, self._progress, now)
            self._progress = now

    def _write_marks(self, marks: str) -> None:
        """Returns once the marks are on the disk, and whoever takes the folder afterwards finds them there."""
        with _marking:
            self._check_held()
            file = os.open(self.folder / "charged", os.O_WRONLY | os.O_APPEND)
            try:
                os.write(file, marks.encode())
                os.fsync(file)
            finally:
                os.close(file)
            self._check_held()  # with the file of the lock gone, another process may have read the marks before

    def note(self, shares: list[list[float]]) -> None:
        """Returns once the share and the noise multiplier of each epoch are on the disk."""
        self._check_held()
        self._put_file("shares.json", lambda path: path.write_text(json.dumps(shares)))

    def save(self, steps: int, tensors: dict[str, Any]) -> None:
        """Puts the tensors of the run after so many steps on the disk."""
        self._check_held()
        found = {"run": self._run, "steps": steps, **tensors}
        self._put_file("tensors.pt", lambda path: torch.save(found, path))

    def tensors(self, run: str) -> dict[str, Any] | None:
        """What the run saved last; None where it saved nothing."""
        try:
            found = torch.load(self.folder / "tensors.pt", map_location="cpu", weights_only=True)
            name, steps = found["run"], found["steps"]
        except FileNotFoundError:
            return None
        except (pickle.UnpicklingError, RuntimeError, EOFError, KeyError, TypeError, ValueError):
            raise self._refuse_damaged("tensors.pt") from None
        if name != run or steps > self._count_steps():
            raise ValueError("checkpoint must hold the tensors of its own run, got those of another")
        return dict(found)

    def _read_marks(self) -> bytes:
        with suppress(FileNotFoundError):
            return (self.folder / "charged").read_bytes()
        return b""

    def _count_steps(self) -> int:
        return self._read_marks().count(b".")

    def _read_charges(self) -> bytes:
        """The marks of what was charged, steps and sums of norms, without those of failures."""
        return self._read_marks().replace(FAILED.encode(), b"")

    def _read_turns(self) -> list[tuple[int, str]]:
        try:
            return [(int(before), str(turn)) for before, turn in json.loads((self.folder / "turns.json").read_text())]
        except (OSError, ValueError, TypeError):
            raise self._refuse_damaged("turns.json") from None

    def _check_newest(self, run: Any) -> None:
        """ValueError unless the last release that the ledger knows of this run was made by this folder's turns."""
        if self._ledger is None:
            return
        self._progress = last = self._ledger.read_progress(run)
        turns, charges = self._read_turns(), len(self._read_charges())
        if last is None:
            return
        made_by = [turn for before, turn in turns if before < last.releases <= charges]
        if made_by[-1:] != [last.turn]:
            raise ValueError(
                f"checkpoint must be the copy of its run that went on last: the ledger knows of {last.releases} "
                f"releases, and this folder, of {charges}, did not make the last of them. Continue with the other "
                "copy, or make another run, which is charged anew. Nothing was spent"
            )

    def _read_epochs(self) -> list[dict[str, Any]]:
        """Of a run whose share of norms is released: what ``ShareAccount.epochs`` was."""
        marks = self._read_charges()
        if not re.fullmatch(rb"(n+\.*)*", marks):
            raise self._refuse_damaged("charged")
        found: list[dict[str, Any]] = [
            {"sums": len(sums), "steps": len(steps)} for sums, steps in re.findall(rb"(n+)(\.*)", marks)
        ]
        taken = [epoch for epoch in found if epoch["steps"]]
        try:
            for epoch, (share, noise) in zip(taken, self._read_shares()[: len(taken)], strict=True):
                epoch |= {"share": share, "noise": noise}
        except (ValueError, TypeError):
            raise self._refuse_damaged("shares.json") from None
        return found

    def _read_shares(self) -> list[Any]:
        with suppress(FileNotFoundError):
            return list(json.loads((self.folder / "shares.json").read_text()))
        return []

    def _check_unchanged(self, unchanged: bool) -> None:
        if not (unchanged and self._lock.is_held):
            raise ValueError(
                "checkpoint must not be in use: another run of this process went on with it. Nothing more was released"
            )

    def _check_held(self) -> None:
        """Raises RuntimeError unless this run may charge its steps in the folder."""
        if not self._lock.is_held:
            raise RuntimeError(
                f"this run does not hold its checkpoint {str(self.folder)!r} any more, or this process is a fork of "
                "the one that does: its file 'lock' must stay where it is. Go on from the folder by another run"
            )
        if _holders.get(self.folder) is not self:
            raise RuntimeError("this run's checkpoint was taken over by a later run: continue with that one")

    def _put_file(self, name: str, write: Callable[[Path], Any]) -> None:
        new = self.folder / f"{name}.new"
        os.close(os.open(new, os.O_WRONLY | os.O_CREAT, 0o600))  # before there is anything to read
        write(new)
        _flush_to_disk(new)
        os.replace(new, self.folder / name)
        if sys.platform != "win32":  # which has no way to flush a folder: a name may be lost when the power is
            _flush_to_disk(self.folder)

    def _refuse_damaged(self, name: str) -> ValueError:
        return ValueError(f"checkpoint must be a folder that a run made: its file {name} is missing or damaged")


def _hold_folder(folder: Path) -> FileLock:
    """Returns the lock of a folder, which this process may have held before. BlockingIOError where another holds it."""
    known = _locks.get(folder)
    lock = known if known is not None and known.is_held else FileLock(folder / "lock")
    _locks[folder] = lock
    return lock


def _flush_to_disk(path: Path) -> None:
    file = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)  # Windows flushes what it may write to
    try:
        os.fsync(file)
    finally:
        os.close(file)
