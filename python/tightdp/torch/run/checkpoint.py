"""The checkpoint folder of a run. It holds each charge, written before the release, and the last saved tensors."""

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

from ..._support import _check
from ..._support.file_lock import FileLock
from ..._support.files import check_regular_file, open_regular_file, read_file_bytes
from ..._support.strict_json import (
    MOST_BYTES,
    check_json_entries,
    check_json_format,
    read_json_value,
    read_strict_json_file,
)
from ...ledger import Ledger
from ...ledger.ledger_facts import digest_ledger_values
from ...ledger.run_progress import LedgerProgress
from ..plan.run_account import FAILED, RunAccount
from . import run_state

FORMAT = 3
"""Number of the format of the folder's JSON files. A file of another format is refused."""
SAVED = "s"
"""Mark, in the file of marks, that tensors were saved for the first time."""
MOST_MARKS = 2**30
"""Largest size of the file of marks, in bytes. A mark is one byte for each charge, and a billion steps would take
days."""
_FILES = "run.json", "charged", "shares.json", "turns.json", "tensors.pt"
"""Names of the files in a checkpoint folder, except the lock file."""
_locks: WeakValueDictionary[Path, FileLock] = WeakValueDictionary()
"""The locks that this process holds, by the folder that each of them locks."""
_holders: WeakValueDictionary[Path, Checkpoint] = WeakValueDictionary()
"""The only checkpoint that may write to a folder, for each folder that this process holds."""
_marking = threading.Lock()
"""Lock that is held while a mark is written or a folder is taken over. It ensures that the run that takes the folder
over reads all marks."""


class Checkpoint:
    """The files of one run, in a folder that one process at a time can hold.

    The process that made the checkpoint holds a lock on the file ``lock``, and its forked children do not. If a later
    run of the same process uses the folder, that run takes it over. The other files are:

    - ``run.json``: the name, the plan and the settings of the run, and the digest of its saved tensors.
    - ``charged``: marks of one byte. A charged step has the mark ".", a charged sum of norms "n", and a failed step
      "!". The mark "s" says that tensors were saved for the first time. A step is charged as soon as its mark is on the
      disk.
    - ``shares.json``: the noise multiplier and the share of norms (the mean clipped norm divided by the norm bound) of
      each epoch, if the run releases shares of norms.
    - ``tensors.pt``: the tensors of the model and the optimizer that were saved last.
    - ``turns.json``, with a ledger: the turns of the run. A turn is the work of one ``Checkpoint`` object, and is
      stored with the number of charges before it. The ledger stores the last charge and its turn. If the folder
      did not make this charge in this turn, it is a copy that fell behind another copy, and is refused
      (docs/theory/filters.md, section 11).

    Every file but ``charged`` is written under another name and then renamed, so a crash leaves the previous version.
    Only the user who trains can read the files. The same holds for the folder if it is made here. Each JSON file has a
    digest of its values. If a file is missing or was not written by a run, a ValueError names it.
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
            self._lock = _hold_checkpoint_folder(self.folder)
        except BlockingIOError:
            raise ValueError(
                "checkpoint must not be in use: another process holds it, and may take its steps"
            ) from None
        except (OSError, ValueError) as error:  # ValueError is raised for a zero byte in the path
            raise ValueError(
                f"checkpoint must be a folder that can be written, on a file system that has locks: {str(error)[:300]}"
            ) from None
        self._ledger, self._run = ledger, ""
        self._progress: LedgerProgress | None = None
        """The progress of this run that was last written to the ledger or read from the ledger."""
        self._turn, self._charges = "", 0
        self._saved: str | None = None
        """The digest of the tensors in the folder."""
        self._seen = b""
        """Content of the file of marks when ``read`` read the folder."""

    def read(self, about: dict[str, Any]) -> dict[str, Any] | None:
        """Returns the state of the run in the folder, in the form of ``run_state.make_run_state``.

        Returns None if the folder holds no run. Raises ValueError unless the run in the folder was begun with the same
        settings ``about``.
        """
        self._check_files()
        self._seen = self._read_checkpoint_marks() if self._has_checkpoint_file("charged") else b""
        if not self._has_checkpoint_file("run.json"):
            turns = self._has_checkpoint_file("turns.json") and self._read_checkpoint_turns()
            if (
                self._seen
                or turns
                or self._has_checkpoint_file("tensors.pt")
                or self._has_checkpoint_file("shares.json")
            ):
                raise self._make_checkpoint_refusal("run.json")
            return None
        begun, state, _ = self._read_checkpoint_values("run.json", self._read_saved_run)
        for name, value in about.items():
            if (type(begun[name]), begun[name]) != (type(value), value):
                raise ValueError(
                    f"checkpoint must be of a run with this {name}, {value!r}, got one with "
                    f"{_check.describe_argument(begun[name])}: it goes on as it was begun. Nothing was spent"
                )
        marks = self._read_checkpoint_marks()
        if (b"n" in marks) > ("epochs" in state):
            raise self._make_checkpoint_refusal("charged", "it has sums of norms, which this run does not release")
        if SAVED.encode() in marks and not self._has_checkpoint_file("tensors.pt"):
            raise self._make_checkpoint_refusal("tensors.pt")
        self._check_checkpoint_newest(state["run"])
        found = {**state, "steps": self._count_checkpoint_steps(), "failures": marks.count(FAILED.encode())}
        return {**found, "epochs": self._read_checkpoint_epochs()} if "epochs" in state else found

    def begin_checkpoint(self, state: dict[str, Any], about: dict[str, Any]) -> None:
        """Writes the files of a new run, which was charged to its ledger and has taken no step."""
        with _marking:
            self._check_unchanged(not self._has_checkpoint_file("run.json"))
            self._put_checkpoint_file("charged", lambda path: path.touch())
            if self._ledger is not None:
                self._put_checkpoint_values("turns.json", [])
            self._put_checkpoint_values("run.json", {"about": about, "state": state, "tensors": []})

    def record_checkpoint_charges(self, account: RunAccount, run: str) -> None:
        """Makes the account write all its further charges to the folder. Earlier runs may not write there any more."""
        with _marking:
            self._check_unchanged(self._read_checkpoint_marks() == self._seen)
            _holders[self.folder] = self
        self._run, self._charges, self._turn = run, len(self._read_checkpoint_charges()), secrets.token_hex(8)
        if self._ledger is not None:
            self._put_checkpoint_values("turns.json", [*self._read_checkpoint_turns(), [self._charges, self._turn]])
        account.keep, account.note = self.charge, self.record_run_shares

    def charge(self, steps: int, mark: str = ".") -> None:
        """Writes ``steps`` marks to the disk, and then the new number of charges to the ledger.

        The mark of a failed step is not a charge. The marks are written first. If the process is killed in between, the
        folder is ahead of its ledger and never behind it.
        """
        self._write_checkpoint_marks(mark * steps)
        if mark == FAILED:
            return
        self._charges += steps
        if self._ledger is not None:
            now = LedgerProgress(self._charges, self._turn)
            self._ledger.record_progress(self._run, self._progress, now)
            self._progress = now

    def _write_checkpoint_marks(self, marks: str) -> None:
        """Writes the marks to the disk. A run that takes the folder over after this call has returned reads them."""
        with _marking:
            self._check_checkpoint_held()
            file = os.open(self.folder / "charged", os.O_WRONLY | os.O_APPEND)
            try:
                os.write(file, marks.encode())
                os.fsync(file)
            finally:
                os.close(file)
            self._check_checkpoint_held()  # if the lock file is gone, another process may have read too few marks

    def record_run_shares(self, shares: list[list[float]]) -> None:
        """Writes the share of norms and the noise multiplier of each epoch to the disk."""
        self._check_checkpoint_held()
        self._put_checkpoint_values("shares.json", shares)

    def save(self, steps: int, tensors: dict[str, Any], most: int) -> None:
        """Writes the tensors after ``steps`` steps to the disk. Raises ValueError if these exceed ``most`` bytes."""
        self._check_checkpoint_held()
        found = {"run": self._run, "steps": steps, **tensors}

        def write_checkpoint_tensors(path: Path) -> None:
            torch.save(found, path)
            check_regular_file(path, most)
            with open_regular_file(path) as file:
                self._record_checkpoint_tensors(self._saved, digest := compute_checkpoint_digest(file))
            digests.append(digest)

        digests: list[str] = []
        self._put_checkpoint_file("tensors.pt", write_checkpoint_tensors)
        (self._saved,) = digests
        self._record_checkpoint_tensors(self._saved)
        if SAVED.encode() not in self._read_checkpoint_marks():
            self._write_checkpoint_marks(SAVED)

    def read_saved_tensors(self, run: str, entries: Iterable[str], most: int) -> dict[str, Any] | None:
        """Returns the tensors that the run saved last, or None if it saved none.

        The file must have the entries ``entries``, "run" and "steps", and no others.
        """
        if not self._has_checkpoint_file("tensors.pt"):
            return None
        try:
            with open_regular_file(self.folder / "tensors.pt", most) as file:
                self._saved = compute_checkpoint_digest(file)
                if self._saved not in self._read_checkpoint_values("run.json", self._read_saved_run)[2]:
                    raise ValueError("its SHA-256 is not the one in run.json")
                file.seek(0)
                found = torch.load(file, map_location="cpu", weights_only=True)
            check_json_entries("it", found, ("run", "steps", *entries))
            name, steps = read_json_value(str, found["run"], "run"), read_json_value(int, found["steps"], "steps")
        except Exception as error:  # a damaged file may cause any error in PyTorch
            raise self._make_checkpoint_refusal("tensors.pt", error) from None
        if name != run or steps < 0:
            raise ValueError("checkpoint must hold the tensors of its own run, got those of another")
        if steps > self._count_checkpoint_steps():
            raise self._make_checkpoint_refusal("charged", "it lacks steps that tensors.pt has")
        return dict(found)

    def _record_checkpoint_tensors(self, *digests: str | None) -> None:
        """Writes the digests that ``tensors.pt`` may have. Two are possible while a new file replaces the old one."""
        about, state, _ = self._read_checkpoint_values("run.json", self._read_saved_run)
        known = [each for each in digests if each is not None]
        self._put_checkpoint_values("run.json", {"about": about, "state": state, "tensors": known})

    def _read_checkpoint_marks(self) -> bytes:
        """Returns the content of the file of marks.

        Raises ValueError if the file is missing or too long, or has a byte that is not a mark.
        """
        try:
            marks = read_file_bytes(self.folder / "charged", MOST_MARKS)
        except FileNotFoundError:
            raise self._make_checkpoint_refusal("charged") from None
        except (OSError, ValueError) as error:
            raise self._make_checkpoint_refusal("charged", error) from None
        if marks.translate(None, f".n{FAILED}{SAVED}".encode()):
            raise self._make_checkpoint_refusal("charged", "it has other bytes than those of marks")
        return marks

    def _count_checkpoint_steps(self) -> int:
        return self._read_checkpoint_marks().count(b".")

    def _read_checkpoint_charges(self) -> bytes:
        """Returns the marks of charged steps and charged sums of norms, without all other marks."""
        return self._read_checkpoint_marks().translate(None, f"{FAILED}{SAVED}".encode())

    def _read_saved_run(self, plain: Any) -> tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]:
        """Returns the settings that a run must share to continue the saved run, and the saved run's first state.

        The third value holds the digests that ``tensors.pt`` may have.
        """
        check_json_entries("values", plain, ("about", "state", "tensors"))
        check_json_entries("about", plain["about"], ("algorithm", "optimizer", "random_state", "ledger"))
        run_state.read_name_from_run_state(plain["state"], "state")
        return plain["about"], plain["state"], read_json_value(tuple[str, ...], plain["tensors"], "tensors")

    def _read_checkpoint_turns(self) -> tuple[tuple[int, str], ...]:
        """Returns the turns of this run, each as the number of charges before it and its name."""
        turns: tuple[tuple[int, str], ...] = self._read_checkpoint_values(
            "turns.json", lambda plain: read_json_value(tuple[tuple[int, str], ...], plain, "values")
        )
        if any(one[0] > other[0] for one, other in pairwise([(0, ""), *turns])):
            raise self._make_checkpoint_refusal("turns.json", "its turns are not in order")
        return turns

    def _check_checkpoint_newest(self, run: Any) -> None:
        """Raises ValueError unless the run's last release in the ledger was made in a turn of this folder."""
        if self._ledger is None:
            return
        self._progress = last = self._ledger.read_progress(run)
        turns, charges = self._read_checkpoint_turns(), len(self._read_checkpoint_charges())
        if last is None:
            return
        made_by = [turn for before, turn in turns if before < last.releases <= charges]
        if made_by[-1:] != [last.turn]:
            raise ValueError(
                f"checkpoint must be the copy of its run that went on last: the ledger knows of {last.releases} "
                f"releases, and this folder, of {charges}, did not make the last of them. Continue with the other "
                "copy, or make another run, which is charged anew. Nothing was spent"
            )

    def _read_checkpoint_epochs(self) -> list[dict[str, Any]]:
        """Returns ``NormShareAccount.epochs`` of the run in the folder, which releases its shares of norms."""
        marks = self._read_checkpoint_charges()
        if marks.startswith(b"."):
            raise self._make_checkpoint_refusal("charged", "an epoch must begin with a sum of norms")
        found: list[dict[str, Any]] = [
            {"sums": len(sums), "steps": len(steps)} for sums, steps in re.findall(rb"(n+)(\.*)", marks)
        ]
        taken = [epoch for epoch in found if epoch["steps"]]
        shares: tuple[tuple[float, float], ...] = ()
        if self._has_checkpoint_file("shares.json") or taken:
            kind = tuple[tuple[float, float], ...]
            shares = self._read_checkpoint_values("shares.json", lambda plain: read_json_value(kind, plain, "values"))
        if not len(taken) <= len(shares) <= len(found):
            raise self._make_checkpoint_refusal("shares.json", f"it has {len(shares)} shares for {len(found)} epochs")
        for epoch, (share, noise) in zip(taken, shares, strict=False):  # an epoch without steps gets a new share later
            epoch |= {"share": share, "noise": noise}
        return found

    def _read_checkpoint_values(self, name: str, build: Callable[[Any], Any]) -> Any:
        """Returns ``build(values)`` for the values that ``_put_checkpoint_values`` wrote. Raises ValueError for any "
        "other file."""

        def read_checked_checkpoint(plain: Any) -> Any:
            check_json_format(plain, "format", FORMAT, "a run")
            check_json_entries("text", plain, ("format", "digest", "values"))
            if plain["digest"] != digest_ledger_values(plain["values"]):
                raise ValueError("digest must be that of the values")
            if read_file_bytes(self.folder / name, MOST_BYTES) != _format_checkpoint_values(plain["values"]):
                raise ValueError("it has other bytes than a run writes")
            return build(plain["values"])

        try:
            return read_strict_json_file(self.folder / name, read_checked_checkpoint)
        except FileNotFoundError:
            raise self._make_checkpoint_refusal(name) from None
        except (OSError, ValueError) as error:
            raise self._make_checkpoint_refusal(name, error) from None

    def _put_checkpoint_values(self, name: str, values: Any) -> None:
        """Writes values, with the number of the format and a digest of the values, to a JSON file."""
        self._put_checkpoint_file(name, lambda path: path.write_bytes(_format_checkpoint_values(values)))

    def _has_checkpoint_file(self, name: str) -> bool:
        return (self.folder / name).exists()

    def _check_files(self) -> None:
        """Raises ValueError if a folder, a pipe or a device has the name of a file that is read or will be written."""
        for name in _FILES:
            for each in (name, f"{name}.new"):
                if self._has_checkpoint_file(each):
                    try:
                        check_regular_file(self.folder / each)
                    except ValueError as error:
                        raise self._make_checkpoint_refusal(each, error) from None

    def _check_unchanged(self, unchanged: bool) -> None:
        if not (unchanged and self._lock.is_held):
            raise ValueError(
                "checkpoint must not be in use: another run of this process went on with it. Nothing more was released"
            )

    def _check_checkpoint_held(self) -> None:
        """Raises RuntimeError unless this run may charge its steps in the folder."""
        if not self._lock.is_held:
            raise RuntimeError(
                f"this run does not hold its checkpoint {str(self.folder)!r} any more, or this process is a fork of "
                "the one that does: its file 'lock' must stay where it is. Go on from the folder by another run"
            )
        if _holders.get(self.folder) is not self:
            raise RuntimeError("this run's checkpoint was taken over by a later run: continue with that one")

    def _put_checkpoint_file(self, name: str, write: Callable[[Path], Any]) -> None:
        """Writes a file under a temporary name, flushes it to the disk and then renames it to ``name``."""
        new = self.folder / f"{name}.new"
        new.unlink(missing_ok=True)
        os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # readable by the user alone from the start
        write(new)
        _flush_checkpoint_to_disk(new)
        os.replace(new, self.folder / name)
        if sys.platform != "win32":  # Windows cannot flush a folder: a power cut may lose the new name
            _flush_checkpoint_to_disk(self.folder)

    def _make_checkpoint_refusal(self, name: str, damage: object = None) -> ValueError:
        """Returns the error for a missing file. If ``damage`` is given, returns the error for a damaged file."""
        what = "is missing" if damage is None else f"is damaged: {str(damage)[:500]}"
        return ValueError(
            f"checkpoint must be a folder with all files that its run wrote: {name} {what}. Put the file back as it "
            f"was, or make another run in an empty folder, which is charged anew. Nothing was spent"
        )


def compute_checkpoint_digest(file: BinaryIO) -> str:
    """Returns the SHA-256 of a file, from its current position to its end."""
    digest = hashlib.sha256()
    while part := file.read(2**20):
        digest.update(part)
    return digest.hexdigest()


def _format_checkpoint_values(values: Any) -> bytes:
    """Returns the text of a file of JSON that holds these values, with their format and their digest."""
    return json.dumps({"format": FORMAT, "digest": digest_ledger_values(values), "values": values}, indent=1).encode()


def _hold_checkpoint_folder(folder: Path) -> FileLock:
    """Returns the lock of a folder, acquired if needed. Raises BlockingIOError if another process holds the lock."""
    known = _locks.get(folder)
    lock = known if known is not None and known.is_held else FileLock(folder / "lock")
    _locks[folder] = lock
    return lock


def _flush_checkpoint_to_disk(path: Path) -> None:
    file = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)  # Windows flushes only files opened for writing
    try:
        os.fsync(file)
    finally:
        os.close(file)
