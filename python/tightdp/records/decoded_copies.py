"""Copies of blocks that take long to decode: a fit writes them at its first pass, and reads them in later passes."""

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
from .views import View

Fit = TypeVar("Fit", bound=Callable[..., Any])
RESERVE = 2**30
"""Bytes that are left free on the disk of the copy, for whatever else uses that disk."""


def cache_decoded_blocks(fit: Fit) -> Fit:
    """Makes ``fit(self, X, ...)`` read a copy of X from its second pass on, where X asks for it by ``copied``.

    Text is not copied, but the numbers that a pipeline makes of it are.
    """

    @wraps(fit)
    def run_on_cached_blocks(first: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        with _copy_to_file(X) if isinstance(X, Blocks) and X.copied and not X.texts else nullcontext(X) as blocks:
            return fit(first, blocks, *args, **kwargs)

    return cast(Fit, run_on_cached_blocks)


@contextmanager
def _copy_to_file(blocks: Blocks) -> Iterator[Blocks]:
    """Yields blocks that copy themselves to a temporary file, or the same blocks if no folder can hold one. The file
    has no name, so that nobody opens it, and it is gone when this process ends."""
    file = None
    with suppress(OSError):  # there may be no folder for it
        # Nobody else may read it. Without a buffer every error of a write is one of that write.
        file = tempfile.TemporaryFile(buffering=0, dir=_find_folder())  # noqa: SIM115
    if file is None:
        yield blocks
        return
    with file:
        yield CopiedBlocks(blocks, file)


def _find_folder() -> str:
    """Returns the folder of the copy: TMPDIR even if it cannot be used, where Python would take another one."""
    return os.environ.get("TMPDIR") or tempfile.gettempdir()


class CopiedBlocks(View):
    """``blocks`` whose first pass writes them to ``file``, from which later passes read them.

    If they cannot be written, because the disk is nearly full or targets are Python objects, every pass reads
    ``blocks``.
    """

    def __init__(self, blocks: Blocks, file: IO[bytes]) -> None:
        super().__init__(blocks)
        self.ahead, self.copied = True, False
        self._file = file
        self._parts: list[tuple[int, np.dtype[Any]]] | None = None
        """The number of records of each block, and the type of its targets, once all are written."""
        self._given_up = False

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        if self._parts is not None:
            return self._read_copy(self._parts)
        return iter(self._blocks) if self._given_up else self._read_and_copy()

    def _read_and_copy(self) -> Iterator[Block]:
        """Yields the blocks, and writes each to the file."""
        parts: list[tuple[int, np.dtype[Any]]] = []
        self._file.seek(0)
        for given in self._blocks:
            x, y = self.block_form(*given)
            self._given_up = self._given_up or not self._write_block(x, y)
            parts.append((len(y), y.dtype))
            yield x, y
        self._parts = None if self._given_up else parts

    def _write_block(self, x: NDArray[Any], y: NDArray[Any]) -> bool:
        """Writes a block, and tells whether that succeeded. If not, the disk gets back what was written before."""
        with suppress(OSError):
            if not y.dtype.hasobject and shutil.disk_usage(_find_folder()).free - x.nbytes - y.nbytes > RESERVE:
                for array in (x, y):
                    rest = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
                    while len(rest):
                        rest = rest[self._file.write(rest) :]
                return True
        with suppress(OSError):
            self._file.truncate(0)
        return False

    def _read_copy(self, parts: list[tuple[int, np.dtype[Any]]]) -> Iterator[Block]:
        """Yields the blocks in the file; ``parts`` holds the number of records and the type of the targets of each."""
        at = 0
        for records, kind in parts:
            self._file.seek(at)
            x = np.fromfile(self._file, self.dtype, records * self.width).reshape(records, self.width)
            y = np.fromfile(self._file, kind, records)
            at += x.nbytes + y.nbytes
            yield x, y
