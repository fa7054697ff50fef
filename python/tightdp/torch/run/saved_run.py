"""The checkpoint of a run as all its processes see it. The first process has the files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..plan import run_state
from ..plan.account import Account
from ..randomness.process_group import World
from .checkpoint import Checkpoint


class SavedRun:
    """The run that the folder of ``make_private`` holds, if it was given one.

    ``files`` are those of the first process, and ``about`` is what a run must have in common with the one in the
    folder to go on with it.
    """

    def __init__(self, world: World, folder: Any, files: Checkpoint | None, about: dict[str, Any]) -> None:
        self.exists = folder is not None
        """Whether the run has a folder, on whichever process."""
        self._world, self._files, self._about = world, files, about
        self._state: Any = world.run_on_first("the checkpoint", self._read) if self.exists else None
        self._own_name: str = world.run_on_first("the name of the run", run_state.make_identity)

    def _read(self) -> dict[str, Any] | None:
        return None if self._files is None else self._files.read(self._about)

    @property
    def record_count(self) -> int | None:
        """Number of records in the plan of the run in the folder; None if the folder has no run."""
        return None if self._state is None else run_state.read_record_count(self._state)

    @property
    def run_name(self) -> str:
        """Name of the run that goes on or begins, which is its release's identifier in the ledger."""
        return self._own_name if self._state is None else run_state.read_identity(self._state, "checkpoint")

    def take_up(self, account: Account, parameters: dict[str, Any], *, after_failure: bool) -> str:
        """Returns the run's name: of the one in the folder, whose charges the account gets, or of one that begins.

        Whatever the account charges from now on is recorded there.
        """
        name = self._own_name
        if self._state is not None:
            with self._world.run_together("the checkpoint"):
                name = run_state.restore_state(
                    self._state, name, account, parameters, "checkpoint", after_failure=after_failure
                )
        if self.exists:
            begun = run_state.make_state(name, account, parameters)
            self._world.run_on_first("the checkpoint", lambda: self._record_run(account, name, begun))
        return name

    def _record_run(self, account: Account, name: str, begun: dict[str, Any]) -> None:
        assert self._files is not None
        if self._state is None:
            self._files.begin_run(begun, self._about)
        self._files.record_charges(account, name)

    def read_tensors(self, name: str, entries: Iterable[str], most: int) -> dict[str, Any] | None:
        """Returns the tensors that the run of that name saved last, on the first process; None if it saved nothing.

        Their file must have these entries and at most so many bytes.
        """
        return None if self._files is None else self._files.read_tensors(name, entries, most)

    def save_tensors(self, steps: int, tensors: dict[str, Any], most: int) -> None:
        """Saves the tensors of the run after so many steps, on the first process, in at most so many bytes."""
        if self._files is not None:
            self._files.save(steps, tensors, most)
