"""What is learned of tables, and the private search, with the records and the score that show most of what they leak.

Beside each stands a planted bug: the same run with less noise than its account says, or an account that forgets some.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter

import numpy as np
from budgets import Unlimited

import tightdp as dp
from tightdp.estimators.second_moment import build_second_moment_query
from tightdp.estimators.shared.labels import compute_label_charge, release_classifier_labels
from tightdp.model_selection import PrivateSearchCV, _TablePart, find_covering_search_run
from tightdp.preprocessing import quantiles
from tightdp.release_gate.count_threshold import compute_count_noise_and_threshold
from tightdp.release_gate.shares import NoiseShare
from tightdp.train import Gate, LogisticRegression, Records, Ridge


def quantile_bounds(planted):
    """One record, below every threshold: it moves each of the ten answers by 1/2. The bug: noise of one question."""

    def build(seed):
        source, z = dp.Philox(seed), 0.5
        canary, nobody = np.array([[-5.0]]), np.array([[np.nan]])
        spread = z / math.sqrt(quantiles.count_quantile_rounds((0, 1))) if planted else z

        def run(inside):
            seen = []

            class Watched(Gate):
                def _finish_gate_release(self, value, mechanism):
                    seen.append(float(value[0]))
                    return super()._finish_gate_release(value, mechanism)

            quantiles.search_quantiles(
                Watched(Unlimited(), source), canary if inside else nobody, (0.5,), (0, 1), spread
            )
            return sum(seen)

        return run, quantiles.compute_quantile_charge((0, 1), z)

    return build


def frequent_categories(planted):
    """A value with one record less than the threshold, or none but the canary. The bug: a threshold that a value of one
    record alone reaches every third time."""

    def build(seed):
        source, z, failure = dp.Philox(seed), 1.0, 0.01
        _, least = compute_count_noise_and_threshold(1, z, failure)
        others, spent = (0, NoiseShare(z, 0.4)) if planted else (least - 1, NoiseShare(z, failure))

        def run(inside):
            counts = Counter({"canary": others + inside} if others + inside else {})
            (found,) = Gate(Unlimited(), source).release_frequent_values(1, lambda: [counts], spent).value
            return float(bool(found))

        return run, dp.Gaussian(z) + dp.ApproximateDP(0.0, failure)

    return build


def learned_labels(planted):
    """The same of the labels that a classifier learns. The bug: labels are kept by their true counts."""

    def build(seed):
        spent = NoiseShare(1.0, 0.01)
        _, least = compute_count_noise_and_threshold(1, *spent)

        def run(inside):
            counts = Counter({"canary": least - 1 + inside})
            if planted:
                return float(counts["canary"] >= least)
            return float(bool(release_classifier_labels(lambda: counts, spent, None)[0]))

        return run, compute_label_charge(spent)

    return build


def ridge(planted):
    """The second moment along the canary, whose feature and target are equal. The bug: its target is not clipped to the
    bounds, and the record not scaled down to ``max_norm``."""

    def build(seed):
        z, gate = 1.0, Gate(Unlimited(), dp.Philox(seed))
        model = Ridge(delta=1e-5, noise_multiplier=z, bounds=(-1, 1), target_bounds=(-1, 1), max_norm=1.0)
        rows = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 2.0 if planted else 1.0]])

        def run(inside):
            kept = rows[: 3 if inside else 2]
            query = build_second_moment_query(Records(kept, kept[:, 1]), 3.0 if planted else model.max_norm)
            if planted:
                query = dataclasses.replace(query, sensitivity=model.max_norm**2)
            return float(gate.release_gaussian(query, z).value @ [1.0, 1.0, 2.0])

        return run, model.charge_for(1)

    return build


class Right(LogisticRegression):
    """Knows the label of every record, and has trained on none."""

    def fit(self, X, y):
        self.charged_, self.public_size_, self.classes_ = dp.Gaussian(1.0) * 1, 10_000, np.array([0, 1])
        return self

    def predict(self, X):
        return np.ones(len(X), dtype=int)

    def __sklearn_clone__(self):
        return self


def search(planted):
    """The best score, which a canary that is held out raises by 1 in each of the runs, so that the best of their noises
    stands out. The bug: scores with an eighth of the noise."""

    def build(seed):
        made = PrivateSearchCV(Right(classes=[0, 1]), {"fit_intercept": [True]}, 2.0, 1e-6, mean=4.0, holdout=0.5)
        run, found, source = (
            find_covering_search_run([dp.Gaussian(1.0) * 1], 1.0, 1e-6),
            [({}, made.estimator)],
            dp.Philox(seed),
        )
        noise, trained = run.score / 8 if planted else run.score, _TablePart(np.zeros((1, 1)), np.zeros(1))

        def trial(inside):
            scored = _TablePart(np.zeros((int(inside), 1)), np.ones(int(inside)))
            made._make_model_selection_runs(found, None, trained, scored, run._replace(score=noise), source)
            return made.best_score_

        return trial, made._charge(run)

    return build


KINDS = {
    "quantile bounds": (quantile_bounds, 0.8, 800, None),
    "frequent categories": (frequent_categories, 0.5, 4000, (0.5,)),
    "learned labels": (learned_labels, 0.5, 4000, (0.5,)),
    "Ridge": (ridge, 0.3, 2000, None),
    "PrivateSearchCV": (search, 0.5, 1500, None),
}
"""(build, the least mu that so many runs show, runs, thresholds)."""
