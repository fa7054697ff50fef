"""A folder from which a run goes on. It has each charge, before the release, and the tensors that were saved last."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import sys
import threading
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO
from weakref import WeakValueDictionary

import torch

from ... import _check
from ..._file_lock import FileLock
from ..._files import check_file, open_file, read_bytes
from ..._strict_json import MOST_BYTES, check_entries, check_format, read_file, read_value
from ...ledger import Ledger
from ...ledger.budget import compute_digest
from ...ledger.progress import Progress
from ..plan import run_state
from ..plan.account import FAILED, Account

FORMAT = 3
"""Number of the format of the folder's JSON files. A file of another format is refused."""
SAVED = "s"
"""Mark of the first tensors that were saved, in a checkpoint."""
MOST_MARKS = 2**30
"""Longest file of marks, in bytes. A mark is a byte, and a billion steps take days."""
_FILES = "run.json", "charged", "shares.json", "turns.json", "tensors.pt"
"""Names of the files in a folder, except that of its lock."""
_locks: WeakValueDictionary[Path, FileLock] = WeakValueDictionary()
"""The locks of the folders that this process holds."""
_holders: WeakValueDictionary[Path, Checkpoint] = WeakValueDictionary()
"""The checkpoint that may write to each of these folders."""
_marking = threading.Lock()
"""Held while a mark is written or a folder is taken over, so that whoever takes it over has seen all marks."""


class Checkpoint:
    """The files of one run. One process at a time holds a folder; a later run of the same process takes it over.

    The process that made it holds the lock of the file ``lock``, and its forked children do not.

    ``run.json`` says which run it is and what it releases, and has the digest of ``tensors.pt``. ``charged`` has a byte
    for each step that was charged, ".", for each sum of norms, "n", for each step that failed, "!", and for the first
    tensors that were saved, "s": a step is charged once its byte is on the disk.
    ``shares.json`` has the share of norms and the noise multiplier of each epoch where these are released.
    ``tensors.pt`` has the model's and the optimizer's as they were saved last. With a ledger, ``turns.json`` names the
    turns of this run, each with the number of charges before it, and the ledger knows the last charge and its turn: a
    copy of the folder that falls behind is refused (docs/theory/filters.md, section 11).

    Each file is written beside its place and put there whole, so a crash leaves the one before. Only the user who
    trains can read them, and a folder that is made here. Those of JSON have the digest of their values. A folder that
    lacks a file, or has one that no run wrote, is refused by a ValueError that says which. Whoever can write all files
    can make another folder that is whole: digests show damage, and not intent.
    """

    def __init__(self, folder: Any, ledger: Ledger | None = None) -> None:
        if (
            not isinstance(folder, (str, os.PathLike))
            or not isinstance(os.fspath(folder), str)
            or not os.fspath(folder)
        ):
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
        except (OSError, ValueError) as error:  # the second is of a zero in the path
            raise ValueError(
                f"checkpoint must be a folder that can be written, on a file system that has locks: {str(error)[:300]}"
            ) from None
        self._ledger, self._run = ledger, ""
        self._progress: Progress | None = None
        """The last progress of this run that was written to the ledger or read from it."""
        self._turn, self._charges = "", 0
        self._saved: str | None = None
        """The digest of the tensors in the folder."""
        self._seen = b""
        """The marks that the folder had when it was read."""

    def read(self, about: dict[str, Any]) -> dict[str, Any] | None:
        """Returns the state of the run in the folder, as ``run_state.make_state`` made it; None if it has none.

        ValueError unless that run was begun with the same ``about``.
        """
        self._check_files()
        self._seen = self._read_marks() if self._has_file("charged") else b""
        if not self._has_file("run.json"):
            turns = self._has_file("turns.json") and self._read_turns()
            if self._seen or turns or self._has_file("tensors.pt") or self._has_file("shares.json"):
                raise self._make_refusal("run.json")
            return None
        begun, state, _ = self._read_values("run.json", self._read_run)
        for name, value in about.items():
            if (type(begun[name]), begun[name]) != (type(value), value):
                raise ValueError(
                    f"checkpoint must be of a run with this {name}, {value!r}, got one with "
                    f"{_check.describe_value(begun[name])}: it goes on as it was begun. Nothing was spent"
                )
        marks = self._read_marks()
        if (b"n" in marks) > ("epochs" in state):
            raise self._make_refusal("charged", "it has sums of norms, which this run does not release")
        if SAVED.encode() in marks and not self._has_file("tensors.pt"):
            raise self._make_refusal("tensors.pt")
        self._check_newest(state["run"])
        found = {**state, "steps": self._count_steps(), "failures": marks.count(FAILED.encode())}
        return {**found, "epochs": self._read_epochs()} if "epochs" in state else found

    def begin_run(self, state: dict[str, Any], about: dict[str, Any]) -> None:
        """Makes the folder that of a run which was paid for, and has taken no step."""
        with _marking:
            self._check_unchanged(not self._has_file("run.json"))
            self._put_file("charged", lambda path: path.touch())
            if self._ledger is not None:
                self._put_values("turns.json", [])
            self._put_values("run.json", {"about": about, "state": state, "tensors": []})

    def record_charges(self, account: Account, run: str) -> None:
        """Records here whatever the account charges from now on; no run that was made before may write here."""
        with _marking:
            self._check_unchanged(self._read_marks() == self._seen)
            _holders[self.folder] = self
        self._run, self._charges, self._turn = run, len(self._read_charges()), secrets.token_hex(8)
        if self._ledger is not None:
            self._put_values("turns.json", [*self._read_turns(), [self._charges, self._turn]])
        account.keep, account.note = self.charge, self.record_shares

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

    def record_shares(self, shares: list[list[float]]) -> None:
        """Returns once the share and the noise multiplier of each epoch are on the disk."""
        self._check_held()
        self._put_values("shares.json", shares)

    def save(self, steps: int, tensors: dict[str, Any], most: int) -> None:
        """Puts the tensors of the run after so many steps on the disk, in at most so many bytes."""
        self._check_held()
        found = {"run": self._run, "steps": steps, **tensors}

        def write_tensors(path: Path) -> None:
            torch.save(found, path)
            check_file(path, most)
            with open_file(path) as file:
                self._record_tensors(self._saved, digest := compute_file_digest(file))
            digests.append(digest)

        digests: list[str] = []
        self._put_file("tensors.pt", write_tensors)
        (self._saved,) = digests
        self._record_tensors(self._saved)
        if SAVED.encode() not in self._read_marks():
            self._write_marks(SAVED)

    def read_tensors(self, run: str, entries: Iterable[str], most: int) -> dict[str, Any] | None:
        """Returns what the run saved last, which has these entries; None where it saved nothing."""
        if not self._has_file("tensors.pt"):
            return None
        try:
            with open_file(self.folder / "tensors.pt", most) as file:
                self._saved = compute_file_digest(file)
                if self._saved not in self._read_values("run.json", self._read_run)[2]:
                    raise ValueError("its SHA-256 is not the one in run.json")
                file.seek(0)
                found = torch.load(file, map_location="cpu", weights_only=True)
            check_entries("it", found, ("run", "steps", *entries))
            name, steps = read_value(str, found["run"], "run"), read_value(int, found["steps"], "steps")
        except Exception as error:  # whatever other versions of PyTorch make of it
            raise self._make_refusal("tensors.pt", error) from None
        if name != run or steps < 0:
            raise ValueError("checkpoint must hold the tensors of its own run, got those of another")
        if steps > self._count_steps():
            raise self._make_refusal("charged", "it lacks steps that tensors.pt has")
        return dict(found)

    def _record_tensors(self, *digests: str | None) -> None:
        """Records the digests that ``tensors.pt`` may have: two while one file takes the place of another."""
        about, state, _ = self._read_values("run.json", self._read_run)
        known = [each for each in digests if each is not None]
        self._put_values("run.json", {"about": about, "state": state, "tensors": known})

    def _read_marks(self) -> bytes:
        """Returns the file of marks. ValueError if it is missing, too long or has other bytes than marks."""
        try:
            marks = read_bytes(self.folder / "charged", MOST_MARKS)
        except FileNotFoundError:
            raise self._make_refusal("charged") from None
        except (OSError, ValueError) as error:
            raise self._make_refusal("charged", error) from None
        if marks.translate(None, f".n{FAILED}{SAVED}".encode()):
            raise self._make_refusal("charged", "it has other bytes than those of marks")
        return marks

    def _count_steps(self) -> int:
        return self._read_marks().count(b".")

    def _read_charges(self) -> bytes:
        """Returns the marks of charges, that is of steps and of sums of norms, without the others."""
        return self._read_marks().translate(None, f"{FAILED}{SAVED}".encode())

    def _read_run(self, plain: Any) -> tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]:
        """Returns what the run has in common with those that go on with it, the state in which it began, and the
        digests that ``tensors.pt`` may have."""
        check_entries("values", plain, ("about", "state", "tensors"))
        check_entries("about", plain["about"], ("algorithm", "optimizer", "random_state", "ledger"))
        run_state.read_identity(plain["state"], "state")
        return plain["about"], plain["state"], read_value(tuple[str, ...], plain["tensors"], "tensors")

    def _read_turns(self) -> tuple[tuple[int, str], ...]:
        """Returns the turns of this run, each with the number of charges before it."""
        turns: tuple[tuple[int, str], ...] = self._read_values(
            "turns.json", lambda plain: read_value(tuple[tuple[int, str], ...], plain, "values")
        )
        if any(one[0] > other[0] for one, other in pairwise([(0, ""), *turns])):
            raise self._make_refusal("turns.json", "its turns are not in order")
        return turns

    def _check_newest(self, run: Any) -> None:
        """Raises ValueError unless the last release of this run in the ledger was made by this folder's turns."""
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
        """Returns ``ShareAccount.epochs`` of the run in the folder, whose share of norms is released."""
        marks = self._read_charges()
        if marks.startswith(b"."):
            raise self._make_refusal("charged", "an epoch must begin with a sum of norms")
        found: list[dict[str, Any]] = [
            {"sums": len(sums), "steps": len(steps)} for sums, steps in re.findall(rb"(n+)(\.*)", marks)
        ]
        taken = [epoch for epoch in found if epoch["steps"]]
        shares = self._read_shares() if self._has_file("shares.json") or taken else ()
        if not len(taken) <= len(shares) <= len(found):
            raise self._make_refusal("shares.json", f"it has {len(shares)} shares for {len(found)} epochs")
        for epoch, (share, noise) in zip(taken, shares, strict=False):  # an epoch without steps gets another share
            epoch |= {"share": share, "noise": noise}
        return found

    def _read_shares(self) -> tuple[tuple[float, float], ...]:
        shares: tuple[tuple[float, float], ...] = self._read_values(
            "shares.json", lambda plain: read_value(tuple[tuple[float, float], ...], plain, "values")
        )
        return shares

    def _read_values(self, name: str, build: Callable[[Any], Any]) -> Any:
        """Returns ``build(values)`` of the values that ``_put_values`` wrote. ValueError for any other file."""

        def read_checked(plain: Any) -> Any:
            check_format(plain, "format", FORMAT, "a run")
            check_entries("text", plain, ("format", "digest", "values"))
            if plain["digest"] != compute_digest(plain["values"]):
                raise ValueError("digest must be that of the values")
            if read_bytes(self.folder / name, MOST_BYTES) != _format_values(plain["values"]):
                raise ValueError("it has other bytes than a run writes")
            return build(plain["values"])

        try:
            return read_file(self.folder / name, read_checked)
        except FileNotFoundError:
            raise self._make_refusal(name) from None
        except (OSError, ValueError) as error:
            raise self._make_refusal(name, error) from None

    def _put_values(self, name: str, values: Any) -> None:
        """Writes values with their format and their digest to a file of JSON."""
        self._put_file(name, lambda path: path.write_bytes(_format_values(values)))

    def _has_file(self, name: str) -> bool:
        return (self.folder / name).exists()

    def _check_files(self) -> None:
        """Raises ValueError for a folder, a pipe or a device in the place of a file, or of one that will be written."""
        for name in _FILES:
            for each in (name, f"{name}.new"):
                if self._has_file(each):
                    try:
                        check_file(self.folder / each)
                    except ValueError as error:
                        raise self._make_refusal(each, error) from None

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
        """Writes a file beside its place, flushes it to the disk and puts it in its place."""
        new = self.folder / f"{name}.new"
        new.unlink(missing_ok=True)
        os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # before there is anything to read
        write(new)
        _flush_to_disk(new)
        os.replace(new, self.folder / name)
        if sys.platform != "win32":  # which has no way to flush a folder: a name may be lost when the power is
            _flush_to_disk(self.folder)

    def _make_refusal(self, name: str, damage: object = None) -> ValueError:
        """Returns the error of a file that is missing, or that is damaged."""
        what = "is missing" if damage is None else f"is damaged: {str(damage)[:500] or type(damage).__name__}"
        return ValueError(
            f"checkpoint must be a folder with all files that its run wrote: {name} {what}. Put the file back as it "
            f"was, or make another run in an empty folder, which is charged anew. Nothing was spent"
        )


def compute_file_digest(file: BinaryIO) -> str:
    """Returns the SHA-256 of a file, from where it stands to its end."""
    digest = hashlib.sha256()
    while part := file.read(2**20):
        digest.update(part)
    return digest.hexdigest()


def _format_values(values: Any) -> bytes:
    """Returns the text of a file of JSON that holds these values, with their format and their digest."""
    return json.dumps({"format": FORMAT, "digest": compute_digest(values), "values": values}, indent=1).encode()


def _hold_folder(folder: Path) -> FileLock:
    """Returns the lock of a folder, which this process may hold already. BlockingIOError if another one holds it."""
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
