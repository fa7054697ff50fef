"""Averages of iterates: post-processing that reduces noise at no cost."""

from __future__ import annotations

import numpy as np

from .model import Vector


class TailMean:
    """The mean of the last ``share`` of ``steps`` iterates; with share 0 the last one."""

    def __init__(self, steps: int, share: float) -> None:
        self._skip = steps - max(1, round(steps * share))
        self._seen = 0
        self._mean: Vector = np.zeros(0)

    def add(self, w: Vector) -> None:
        self._seen += 1
        kept = self._seen - self._skip
        if kept == 1:
            self._mean = w.copy()
        elif kept > 1:
            self._mean += (w - self._mean) / kept

    def mean(self) -> Vector:
        return self._mean
