"""The checkpoint of a run, for all processes of the run. Only the first process reads and writes the files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..plan.run_account import RunAccount
from ..randomness.process_group import World
from . import run_state
from .checkpoint import Checkpoint


class SavedRun:
    """The run in the checkpoint folder of ``make_private``. Without a folder, the object saves nothing.

    ``files`` is the checkpoint on the first process, and None on the other processes. ``about`` holds settings. The run
    in the folder is continued only if it was begun with the same settings.
    """

    def __init__(self, world: World, folder: Any, files: Checkpoint | None, about: dict[str, Any]) -> None:
        self.exists = folder is not None
        """Whether the run has a folder. The value is the same on all processes."""
        self._world, self._files, self._about = world, files, about
        self._state: Any = world.run_on_first_rank("the checkpoint", self._read) if self.exists else None
        self._own_name: str = world.run_on_first_rank("the name of the run", run_state.make_name_for_run_state)

    def _read(self) -> dict[str, Any] | None:
        return None if self._files is None else self._files.read(self._about)

    @property
    def record_count(self) -> int | None:
        """Number of records in the plan of the run in the folder, or None if the folder has no run."""
        return None if self._state is None else run_state.read_record_count_of_run_state(self._state)

    @property
    def saved_run_name(self) -> str:
        """Name of the run in the folder, which is continued, or else of the new run.

        The ledger uses the name as the identifier of the run's release.
        """
        return self._own_name if self._state is None else run_state.read_name_from_run_state(self._state, "checkpoint")

    def take_up_run(self, account: RunAccount, parameters: dict[str, Any], *, after_failure: bool) -> str:
        """Continues the run in the folder or begins a new run, and returns the name of that run.

        If the folder has a run, its charges are added to the account. All further charges are recorded in the folder.
        """
        name = self._own_name
        if self._state is not None:
            with self._world.run_ranks_together("the checkpoint"):
                name = run_state.restore_run_state(
                    self._state, name, account, parameters, "checkpoint", after_failure=after_failure
                )
        if self.exists:
            begun = run_state.make_run_state(name, account, parameters)
            self._world.run_on_first_rank(
                "the checkpoint", lambda: self._record_run_in_checkpoint(account, name, begun)
            )
        return name

    def _record_run_in_checkpoint(self, account: RunAccount, name: str, begun: dict[str, Any]) -> None:
        assert self._files is not None
        if self._state is None:
            self._files.begin_checkpoint(begun, self._about)
        self._files.record_checkpoint_charges(account, name)

    def read_saved_tensors(self, name: str, entries: Iterable[str], most: int) -> dict[str, Any] | None:
        """Returns the tensors that the run of this name saved last, or None if it saved nothing.

        Only the first process reads the tensors, and the other processes get None. The file must have these ``entries``
        and at most ``most`` bytes.
        """
        return None if self._files is None else self._files.read_saved_tensors(name, entries, most)

    def save_run_tensors(self, steps: int, tensors: dict[str, Any], most: int) -> None:
        """Saves the run's tensors after ``steps`` steps, on the first process, in a file of at most ``most`` bytes."""
        if self._files is not None:
            self._files.save(steps, tensors, most)
