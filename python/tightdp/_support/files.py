"""Opens files for reading. Only regular files of a bounded size are accepted, because a pipe or a device may never end.

Every path that the package reads is opened by ``open_regular_file``, or is checked by ``check_regular_file`` before a
library opens the file by its path.
"""

from __future__ import annotations

import os
import stat
from io import BytesIO, TextIOWrapper
from typing import TYPE_CHECKING, BinaryIO

from . import _check

if TYPE_CHECKING:
    from pathlib import Path


def check_regular_file(path: str | Path, most: int | None = None) -> None:
    """Raises ValueError unless the path is a regular file of at most ``most`` bytes, and OSError if it is missing."""
    try:
        found = os.stat(path)
    except ValueError:  # the path has a zero byte, or a character that no file system can hold
        raise ValueError(f"{_check.describe_argument(str(path))}: must be the path of a file") from None
    _check_file_status(path, found, most)


def open_regular_file(path: Path, most: int | None = None) -> BinaryIO:
    """Returns the file at ``path``, opened for reading. Raises the errors of ``check_regular_file``.

    The file is checked before it is opened, because opening a device may already have an effect. The opened file is
    checked again, because another file may have replaced it. Opening does not wait for the other end of a pipe.
    """
    check_regular_file(path, most)
    file = open(path, "rb", opener=_open_file_without_waiting)  # noqa: SIM115
    try:
        _check_file_status(path, os.fstat(file.fileno()), most)
    except ValueError:
        file.close()
        raise
    return file


def read_file_bytes(path: Path, most: int) -> bytes:
    """Returns the contents of a file of at most ``most`` bytes. Raises the errors of ``check_regular_file``."""
    with open_regular_file(path, most) as file:
        return file.read(most)


def read_file_text(path: Path, most: int) -> str:
    """Returns the text of a UTF-8 file, with line ends converted to newlines.

    Raises the errors of ``check_regular_file``."""
    return TextIOWrapper(BytesIO(read_file_bytes(path, most)), encoding="utf-8").read()


def _check_file_status(path: str | Path, found: os.stat_result, most: int | None) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{path}: must be a file, and this is a folder, a pipe or a device")
    if most is not None and found.st_size > most:
        raise ValueError(f"{path}: must have at most {most:,} bytes, got {found.st_size:,}")


def _open_file_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # Windows lacks O_NONBLOCK
