"""How good predicted probabilities are: accuracy alone does not see a model that is sure of what it gets wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

BINS = 15
"""Of equal width over [0, 1], as in Guo et al. (ICML 2017)."""


def quality(clf: Any, X: Any, y: Any) -> dict[str, float]:
    """Accuracy in %, and where there are probabilities the mean log-loss and the expected calibration error in %."""
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
    """Mean over records of |accuracy - mean confidence| of the bin of confidence that a record is in."""
    bins = np.minimum((np.asarray(confidence) * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, np.asarray(right, float), BINS) - np.bincount(bins, confidence, BINS)
    return float(np.abs(gaps).sum() / len(bins))
