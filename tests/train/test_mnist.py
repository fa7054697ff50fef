"""Real MNIST, where it is: bench/data.py says how to get it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tightdp.train import DPSGD, LogisticRegression

BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.data
@pytest.mark.slow
def test_a_private_model_of_mnist(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import data
    import data_sets

    if not data.have("mnist"):
        pytest.skip("MNIST is not here: python bench/data.py mnist")
    X, y, test_X, test_y = data_sets.images("mnist")
    clf = LogisticRegression(DPSGD(batch_size=600, epochs=5), epsilon=1.0, delta=1e-5, random_state=0).fit(X, y)
    assert 0.999 < clf.privacy_.lower <= clf.privacy_.upper <= 1.0
    assert clf.score(test_X, test_y) >= 0.9
    for name in ("data", "data_sets"):
        sys.modules.pop(name, None)
