"""How far one row moves what noise is added to, read off the integers: every sum that an algorithm releases, on uniform
rows, with each of several rows (``--rows``) left out.

    python bench/exact.py [--quick] [--rows 4]

4,000,000 x 8 and 200,000 x 50 in float32 and float64, all labels 1: where sums of floats moved by up to 46 norm bounds.
Asserts that nothing moves by more than its sensitivity, in rational arithmetic.
"""

from __future__ import annotations

import sys
from fractions import Fraction

import numpy as np
from shared import options

import tightdp as dp
from tightdp.train import LinearModel, Oracle, Public, Records
from tightdp.train.dpis import importance_sum
from tightdp.train.linear import Hinge, Logistic

SHAPES = [(4_000_000, 8), (200_000, 50)]
QUICK = [(20_000, 8), (5_000, 50)]


def queries(oracle: Oracle, features: int) -> dict[str, dp.train.Query]:
    g = np.random.default_rng(1)
    w, center = 0.1 * g.normal(size=features + 1), 0.01 * g.normal(size=features + 1)
    scale = g.uniform(0.5, 2, features + 1)
    return {
        "NoisyGD, DPAGD": oracle.gradient_sum(w, 1.0),
        "DPSGD": oracle.gradient_sum(w, 1.0, sampling_probability=0.3),
        "AdaCliP": oracle.gradient_sum(w, 1.0, sampling_probability=0.3, center=center, scale=scale),
        "DPIS": importance_sum(oracle, w, 1.0, 0.3, 5.0, 0.05, refresh=True),
        "norms": oracle.norm_sum(w, 1.0),
        "losses": oracle.line_loss_sums(w, center, np.array([0.0, 1.0, 5.0]), 1.0),
        "features": oracle.feature_sum(1.0),
    }


def moved(query: dp.train.Query, with_row: np.ndarray, without: np.ndarray) -> Fraction:
    """|difference| over the sensitivity, squared; for scores the largest entry."""
    scale = np.ones(with_row.size) if query.scale is None else query.scale
    parts = [
        (int(m) * Fraction(query.grid) / Fraction(float(s)) / Fraction(query.sensitivity)) ** 2
        for m, s in zip(with_row - without, scale, strict=True)
    ]
    return max(parts) if query.scores else sum(parts, Fraction(0))


def main() -> int:
    given = options(__doc__, quick=False, rows=4)
    print(f"{'rows':>9s} {'type':8s} {'loss':9s} largest move of one row, over the sensitivity")
    for n, d in QUICK if given.quick else SHAPES:
        for dtype in (np.float32, np.float64):
            X = np.random.default_rng(0).random((n, d), dtype=dtype)
            y = np.ones(n, np.intp)
            for name, loss in (("logistic", Logistic()), ("hinge", Hinge())):
                model = LinearModel(d, loss)
                worst: dict[str, float] = {}
                values = {}
                # Coins are drawn row by row: the last rows are left out, so that the others keep theirs.
                for left_out in range(given.rows + 1):
                    kept = n - left_out
                    oracle = Oracle(model, Records(X[:kept], y[:kept]), Public(n, model.size))
                    found = {key: (q, q.evaluate(dp.Philox(7))) for key, q in queries(oracle, d).items()}
                    for key, (query, value) in found.items():
                        if left_out:
                            ratio = moved(query, values[key][1], value)
                            assert ratio <= 1, (n, d, dtype, name, key)
                            worst[key] = max(worst.get(key, 0.0), float(ratio) ** 0.5)
                    values = found
                print(f"{n:9d} {np.dtype(dtype).name:8s} {name:9s}", " ".join(f"{k} {v:.6f}" for k, v in worst.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
