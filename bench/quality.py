"""Measures how good predicted probabilities are. Accuracy alone does not show that a model is sure of wrong classes."""

from __future__ import annotations

from typing import Any

import numpy as np

BINS = 15
"""Number of bins of confidence. The bins have equal widths over [0, 1], as in Guo et al. (ICML 2017)."""


def quality(clf: Any, X: Any, y: Any) -> dict[str, float]:
    """Returns the accuracy in %. If the model predicts probabilities, returns two more measures.

    They are the mean log-loss, and the expected calibration error in %.
    """
    if not hasattr(clf, "predict_proba"):
        return {"scores": 100 * clf.score(X, y)}
    logs = clf.predict_log_proba(X)
    own = np.searchsorted(clf.classes_, y)
    confidence, right = np.exp(logs.max(axis=1)), logs.argmax(axis=1) == own
    return {
        "scores": 100 * float(right.mean()),
        "losses": -float(logs[np.arange(len(own)), own].mean()),
        "calibration": 100 * calibration_error(confidence, right),
    }


def calibration_error(confidence: Any, right: Any) -> float:
    """Returns the mean, over the records, of |accuracy - mean confidence| in the bin of the record's confidence."""
    bins = np.minimum((np.asarray(confidence) * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, np.asarray(right, float), BINS) - np.bincount(bins, confidence, BINS)
    return float(np.abs(gaps).sum() / len(bins))
