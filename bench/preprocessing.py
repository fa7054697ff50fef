"""Measures the accuracy that is lost by learning bounds and categories inside the account, at (1, 1e-6).

    python bench/preprocessing.py [--sets adult bank ipums-br] [--seeds 5]

Logistic regression with its defaults is fitted to four fifths of the records, and tested on the other fifth. "declared"
uses the ranges and categories that occur, as if a survey's documentation stated them, and spends the whole budget on
the model. "learned" uses private quantiles and frequent categories and labels instead, in one ``PrivatePipeline`` at
the same epsilon and delta.
"""

from __future__ import annotations

import sys

import data
import data_sets
import numpy as np
from shared import options

from tightdp.pipeline import PrivatePipeline
from tightdp.preprocessing import ColumnTransformer, MinMaxScaler, OneHotEncoder
from tightdp.train import LogisticRegression

EPSILON, DELTA = 1.0, 1e-6


def table(name: str) -> tuple[dict[str, np.ndarray], list[str], np.ndarray]:
    """Returns the raw columns, the names of the columns of numbers, and the labels in {0, 1}."""
    if name != "adult":
        X, y = data_sets.raw(name)
        return {f"c{j}": column for j, column in enumerate(X.T)}, [f"c{j}" for j in range(X.shape[1])], y
    texts = data_sets.adult_columns()
    texts.pop("split", None)
    y = np.array([label.strip().rstrip(".") == ">50K" for label in texts.pop("income")]).astype(np.int64)
    numbers = list(data_sets.ADULT_NUMBERS)
    return {c: np.array(v, dtype=float if c in numbers else object) for c, v in texts.items()}, numbers, y


def pipeline(columns: dict[str, np.ndarray], numbers: list[str], learned: bool, seed: int) -> PrivatePipeline:
    texts = [name for name in columns if name not in numbers]
    values = np.column_stack([columns[name] for name in numbers])
    low, high = values.min(axis=0), values.max(axis=0)
    bounds = None if learned else (low, np.where(high > low, high, low + 1))
    known = None if learned else [sorted(set(columns[name]) - {"?"}) for name in texts]
    parts = [("numbers", MinMaxScaler(bounds=bounds), numbers)]
    parts += [("texts", OneHotEncoder(categories=known), texts)] if texts else []
    model = LogisticRegression(classes="learn" if learned else [0, 1])
    steps = [("columns", ColumnTransformer(parts)), ("model", model)]
    return PrivatePipeline(steps, EPSILON, DELTA, random_state=seed)


def main() -> int:
    given = options(__doc__, sets=["adult", "bank", "ipums-br"], seeds=5)
    print(f"{'':10s}{'declared':>16s}{'learned':>16s}{'difference':>18s}   accuracy in percent, mean and deviation")
    for name in given.sets:
        try:
            columns, numbers, y = table(name)
        except data.Missing as missing:
            print(f"{name}: {missing}")
            continue
        scores = np.empty((given.seeds, 2))
        for seed in range(given.seeds):
            held = np.random.default_rng(seed).random(len(y)) < 0.2
            train, test = ({c: v[part] for c, v in columns.items()} for part in (~held, held))
            for which, learned in enumerate((False, True)):
                model = pipeline(columns, numbers, learned, 1000 * seed).fit(train, y[~held])
                assert model.privacy_.upper <= EPSILON
                scores[seed, which] = 100 * model.score(test, y[held])
        three = np.column_stack([scores, scores[:, 1] - scores[:, 0]])
        shown = [
            f"{mean:8.2f} +- {deviation:4.2f}" for mean, deviation in zip(three.mean(0), three.std(0), strict=True)
        ]
        print(f"{name:10s}{shown[0]}{shown[1]}  {shown[2]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
