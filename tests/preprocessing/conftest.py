"""Data with an obvious scale, and noise that is left out."""

import numpy as np
import pytest


@pytest.fixture
def still(monkeypatch):
    """What is released is what was counted."""
    monkeypatch.setattr("tightdp.release_gate.gate.Gate._add_noise", lambda gate, deviation, value: None)


@pytest.fixture
def people():
    """(n, 2): ages, and incomes of which a tenth is missing."""
    g = np.random.default_rng(1)
    incomes = g.lognormal(10, 1, 5000)
    incomes[::10] = np.nan
    return np.column_stack([g.integers(18, 90, 5000).astype(float), incomes])
