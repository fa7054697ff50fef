"""A progress bar on standard error."""

from __future__ import annotations

import sys
import time
from typing import TextIO

WIDTH = 30
"""Length of the bar in characters."""
INTERVAL = 0.1
"""Least number of seconds between two redraws of the bar."""


class ProgressBar:
    """A progress bar. Calling the object with (done, total) draws the bar.

    ``done`` and ``total`` are numbers of releases, or of another ``unit``. If ``total`` is None, only the number
    ``done`` is drawn. Nothing is drawn unless ``shown`` is True.
    """

    def __init__(self, shown: bool, stream: TextIO | None = None, unit: str = "releases") -> None:
        self._shown, self._unit, self._stream = shown, unit, stream or sys.stderr
        self._start, self._drawn = time.monotonic(), -INTERVAL

    def __call__(self, done: int, total: int | None) -> None:
        now = time.monotonic() - self._start
        if not self._shown or (done != total and now - self._drawn < INTERVAL):
            return
        self._drawn = now
        if total is None:
            line = f"{done} {self._unit}"
        else:
            filled = WIDTH * done // total
            left = now / done * (total - done)
            line = f"[{'#' * filled}{'.' * (WIDTH - filled)}] {done}/{total} {self._unit}, {left:.0f} s left"
        self._stream.write(f"\r{line:70s}")
        self._stream.flush()

    def close(self) -> None:
        """Removes the bar from the screen."""
        if self._shown and self._drawn >= 0:
            self._stream.write("\r" + " " * 70 + "\r")
            self._stream.flush()
