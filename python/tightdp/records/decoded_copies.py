"""Temporary copies of blocks that take long to decode. A fit writes a copy in its first pass, and reads it later."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import wraps
from typing import IO, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from .blocks import Block, Blocks
from .views import BlockView

Fit = TypeVar("Fit", bound=Callable[..., Any])
RESERVE = 2**30
"""Number of bytes that stay free on the disk of the copy, for other programs."""


def cache_decoded_blocks(fit: Fit) -> Fit:
    """Makes ``fit(self, X, ...)`` copy X to a temporary file in its first pass over X, and read the copy later.

    X is copied only if its attribute ``copied`` is True, which says that X takes long to decode. Blocks with columns of
    text are not copied. Instead, the numbers that a pipeline makes of the text are copied.
    """

    @wraps(fit)
    def run_on_cached_blocks(first: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        with (
            _copy_blocks_to_file(X) if isinstance(X, Blocks) and X.copied and not X.texts else nullcontext(X) as blocks
        ):
            return fit(first, blocks, *args, **kwargs)

    return cast(Fit, run_on_cached_blocks)


@contextmanager
def _copy_blocks_to_file(blocks: Blocks) -> Iterator[Blocks]:
    """Yields blocks that copy themselves to a temporary file, or ``blocks`` itself if no file can be created.

    The file has no name, so that no other process can open it, and is removed when this process ends.
    """
    file = None
    with suppress(OSError):  # raised if no folder is writable
        # The file has no buffer, so that a failed write raises its error at once.
        file = tempfile.TemporaryFile(buffering=0, dir=_find_folder_of_copy())  # noqa: SIM115
    if file is None:
        yield blocks
        return
    with file:
        yield CopiedBlocks(blocks, file)


def _find_folder_of_copy() -> str:
    """Returns the folder of the copy: TMPDIR if it is set, even if it is not writable, and else Python's choice."""
    return os.environ.get("TMPDIR") or tempfile.gettempdir()


class CopiedBlocks(BlockView):
    """A view of ``blocks`` that writes them to ``file`` in its first pass, and reads the file in later passes.

    If the blocks cannot be written, because the disk is nearly full or the targets are Python objects, every pass reads
    ``blocks``.
    """

    def __init__(self, blocks: Blocks, file: IO[bytes]) -> None:
        super().__init__(blocks)
        self.ahead, self.copied = True, False
        self._file = file
        self._parts: list[tuple[int, np.dtype[Any]]] | None = None
        """The number of records and the type of the targets of each block. None until all blocks are written."""
        self._given_up = False

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        if self._parts is not None:
            return self._read_copy(self._parts)
        return iter(self._blocks) if self._given_up else self._copy_decoded_blocks()

    def _copy_decoded_blocks(self) -> Iterator[Block]:
        """Yields the blocks, and writes each to the file."""
        parts: list[tuple[int, np.dtype[Any]]] = []
        self._file.seek(0)
        for given in self._blocks:
            x, y = self.block_form(*given)
            self._given_up = self._given_up or not self._write_decoded_block(x, y)
            parts.append((len(y), y.dtype))
            yield x, y
        self._parts = None if self._given_up else parts

    def _write_decoded_block(self, x: NDArray[Any], y: NDArray[Any]) -> bool:
        """Writes a block, and returns whether this succeeded. If it failed, the file is emptied to free the disk."""
        with suppress(OSError):
            if not y.dtype.hasobject and shutil.disk_usage(_find_folder_of_copy()).free - x.nbytes - y.nbytes > RESERVE:
                for array in (x, y):
                    rest = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
                    while len(rest):
                        rest = rest[self._file.write(rest) :]
                return True
        with suppress(OSError):
            self._file.truncate(0)
        return False

    def _read_copy(self, parts: list[tuple[int, np.dtype[Any]]]) -> Iterator[Block]:
        """Yields the blocks in the file. ``parts`` has each block's number of records and the type of its targets."""
        at = 0
        for records, kind in parts:
            self._file.seek(at)
            x = np.fromfile(self._file, self.dtype, records * self.width).reshape(records, self.width)
            y = np.fromfile(self._file, kind, records)
            at += x.nbytes + y.nbytes
            yield x, y
