"""Small data and a NumPy source of randomness that tests can steer."""

from __future__ import annotations

import numpy as np
import pytest


class Still:
    """A source whose noise is 0 and whose coins are fixed: what it releases is what was computed."""

    def __init__(self, uniforms=None):
        self._g = np.random.default_rng(0)
        self._uniforms = uniforms

    def uniform(self, size):
        return self._g.random(size) if self._uniforms is None else np.full(size, self._uniforms)

    def normal(self, size):
        return np.zeros(size)


@pytest.fixture
def still(monkeypatch):
    monkeypatch.setattr("tightdp.release_gate.gate.Gate._add_noise", lambda gate, deviation, value: None)
    return Still()


@pytest.fixture
def blobs():
    g = np.random.default_rng(3)
    y = g.integers(0, 2, 1500)
    return g.normal(size=(1500, 4)) + 1.5 * (2 * y[:, None] - 1), y
