"""Audits by many runs with and without the canary, which is a record that the auditor makes up. A threshold on a score
tells the two kinds of runs apart (docs/theory/audit.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from .._core import log_ndtri
from .._support import _check
from .binomial import MOST_TRIALS, lower_limit, upper_limit
from .evidence import Evidence

Scores = npt.NDArray[np.float64]
NOT_A_NUMBER = np.inf
"""The value that replaces a score of NaN. An attacker can see that an output is NaN, so the score must be kept."""


def paired(
    scores_with: npt.ArrayLike,
    scores_without: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    delta: float | None = None,
    thresholds: Sequence[float] | None = None,
    holdout: float = 0.5,
) -> Evidence:
    """Returns the evidence from scores of independent runs on a data set with a canary, and on the same data set
    without the canary.

    Parameters
    ----------
    scores_with, scores_without : one number for each run, any function of what the run released. NaN counts as +inf.
        The score function must not be chosen by looking at these runs.
    confidence : confidence of the limits, in (0, 1).
    delta : the threshold is chosen for the largest epsilon at this delta, or for the largest mu if ``delta`` is None.
    thresholds : thresholds that were fixed before the runs. Each threshold is tried in both directions, with an equal
        share of 1 - confidence (union bound). None chooses a threshold by the first part of the scores, and computes
        the limits from the other scores alone.
    holdout : the fraction of the scores, from the first one on, that only serve to choose the threshold, in (0, 1).

    The lower bound is ``.epsilon(delta)`` of the ``Evidence``. The two rates at which runs with and without the
    canary pass the threshold have Clopper and Pearson's limits. Each of the two limits is wrong with probability at
    most half of 1 - confidence. If ``thresholds`` are given, this probability is divided by the number of tests.

    Raises ValueError for an argument of another shape or out of its range.

    >>> import numpy as np
    >>> g = np.random.default_rng(0)
    >>> found = paired(g.normal(1, 1, 4000), g.normal(0, 1, 4000))  # the Gaussian mechanism, noise multiplier 1
    >>> 0.8 < found.mu() < 1.0
    True
    """
    with_, without = (
        _check_attack_scores("scores_with", scores_with),
        _check_attack_scores("scores_without", scores_without),
    )
    error = 1 - _check.open_unit("confidence", confidence)
    aim = None if delta is None else _check.closed_unit("delta", delta)
    if thresholds is None:
        part = _check.open_unit("holdout", holdout)
        (try_with, keep_with), (try_without, keep_without) = (
            _split_attack_scores(with_, part),
            _split_attack_scores(without, part),
        )
        threshold, above = _choose_attack_threshold(
            try_with, try_without, error, aim, len(keep_with), len(keep_without)
        )
        return _bound_attack_error_rates(keep_with, keep_without, threshold, above, error, confidence)
    fixed = np.asarray(thresholds, dtype=np.float64).ravel()
    if not len(fixed) or np.isnan(fixed).any():
        raise ValueError("thresholds must be at least one number, none of them NaN")
    share = error / (2 * len(fixed))
    tests = [(t, above) for t in fixed for above in (True, False)]
    found = [_bound_attack_error_rates(with_, without, float(t), above, share, confidence) for t, above in tests]
    return max(found, key=(lambda e: e.mu()) if aim is None else (lambda e: e.epsilon(aim)))


def run_pairs(run: Callable[[bool], float], trials: int) -> tuple[Scores, Scores]:
    """Returns ``trials`` scores of ``run(True)``, with the canary, and ``trials`` scores of ``run(False)``, without it.

    The calls alternate. ``run`` must use fresh randomness at every call.

    ``trials`` is an integer >= 2. Raises ValueError for another number, and the errors of ``run``.

    >>> import random
    >>> from tightdp.audit import run_pairs
    >>> with_canary, without = run_pairs(lambda canary: canary + random.gauss(0, 1), trials=100)
    >>> with_canary.shape, without.shape
    ((100,), (100,))
    """
    n = _check.check_count_argument("trials", trials, least=2, most=MOST_TRIALS)
    found = np.array([(run(True), run(False)) for _ in range(n)], dtype=np.float64)
    return found[:, 0], found[:, 1]


def convert_attack_scores(name: str, values: npt.ArrayLike) -> Scores:
    """Returns scores as float64. Scores may be booleans, if the answer of an attack is yes or no."""
    array = np.asarray(values)
    return array.astype(np.float64) if array.dtype == np.bool_ else _check.check_array_argument(name, values)


def _check_attack_scores(name: str, values: npt.ArrayLike) -> Scores:
    array = convert_attack_scores(name, values)
    if array.ndim != 1 or not 2 <= len(array) <= MOST_TRIALS:
        raise ValueError(f"{name} must have shape (runs,) with 2 to {MOST_TRIALS} runs, got shape {array.shape}")
    return np.where(np.isnan(array), NOT_A_NUMBER, array)


def _split_attack_scores(scores: Scores, part: float) -> tuple[Scores, Scores]:
    cut = min(max(round(part * len(scores)), 1), len(scores) - 1)
    return scores[:cut], scores[cut:]


def _bound_attack_error_rates(
    with_: Scores, without: Scores, t: float, above: bool, error: float, confidence: float
) -> Evidence:
    hits, alarms = ((int(((s >= t) == above).sum()), len(s)) for s in (with_, without))
    power, level = lower_limit(*hits, 0.5 * error), upper_limit(*alarms, 0.5 * error)
    return Evidence(power, level, confidence, t, above, len(with_) + len(without))


def _choose_attack_threshold(
    with_: Scores, without: Scores, error: float, aim: float | None, kept_with: int, kept_without: int
) -> tuple[float, bool]:
    """Returns the threshold with the best expected result, and whether scores above it speak for the canary.

    ``kept_with`` and ``kept_without`` are the numbers of scores from which the limits will be computed.

    The evidence is valid for any choice of the threshold. So approximate limits are enough here, and Wilson's limits
    are computed for all thresholds at once.
    """
    values = np.unique(np.concatenate([with_, without]))
    p = 1 - np.searchsorted(np.sort(with_), values, side="left") / len(with_)
    q = 1 - np.searchsorted(np.sort(without), values, side="left") / len(without)
    best, choice = -np.inf, (float(values[0]), True)
    for above, power, level in ((True, p, q), (False, 1 - p, 1 - q)):
        low = _estimate_attack_rate_limit(power, kept_with, error, -1)
        high = _estimate_attack_rate_limit(level, kept_without, error, +1)
        with np.errstate(divide="ignore", invalid="ignore"):
            if aim is None:
                value = log_ndtri(np.log(low)) - log_ndtri(np.log(high))
            else:
                directions = (low - aim) / high, (1 - high - aim) / (1 - low)
                value = np.log(np.maximum(np.maximum(*directions), 0))
        value = np.where(np.isnan(value), -np.inf, value)
        if value.max() > best:
            best, choice = float(value.max()), (float(values[int(value.argmax())]), above)
    return choice


def _estimate_attack_rate_limit(rate: Scores, trials: int, error: float, sign: int) -> Scores:
    z2 = float(log_ndtri(np.log(0.5 * error))) ** 2
    middle = rate + z2 / (2 * trials)
    spread = np.sqrt(z2 * rate * (1 - rate) / trials + z2 * z2 / (4 * trials**2))
    return np.asarray(np.clip((middle + sign * spread) / (1 + z2 / trials), 1e-300, 1 - 1e-16))
