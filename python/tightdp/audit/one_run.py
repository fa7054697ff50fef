"""Audits by one run with many canaries, records that the auditor makes up (Steinke, Nasr and Jagielski 2023).

A fair coin decides whether a canary is included. The audit counts how many of these coins an attacker guesses right.

The bound and its proof are in docs/theory/audit.md, section 4. The bound's term with delta is not from the paper. The
proof of this term does not assume that right guesses and failures of the guarantee are independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from .._support import _check
from ..accounting.numerics.root import bracket_monotone_crossing
from ..clipping_and_noise.noise import SecureRandom
from .binomial import MOST_TRIALS, TAIL_ERROR, compute_attack_log_pmf, compute_attack_tail_probability
from .paired_audit import convert_attack_scores

_LARGEST = 100.0
"""The largest epsilon that is tried. To refute it, wrong guesses would have to be as rare as e^-100, and no affordable
number of guesses can show this."""


@dataclass(frozen=True)
class OneRun:
    """The result of an audit by one run: a lower bound ``epsilon`` at ``delta``, which holds with ``confidence``.

    ``correct`` of the ``guesses`` guesses were right.

    Fields
    ------
    epsilon : the lower bound, in nats
    delta : the delta of the bound, in [0, 1]
    confidence : the probability with which the bound holds, in (0, 1)
    canaries : the number of canaries
    guesses, correct : the number of guesses, and of right ones

    ``one_run`` makes these objects, and raises the errors about arguments.

    >>> from tightdp.audit import one_run
    >>> found = one_run([1.0, 0.0] * 500, [True, False] * 500, delta=1e-6, guesses=100)  # no guess is wrong
    >>> found.correct, found.epsilon > 3
    (100, True)
    """

    epsilon: float
    delta: float
    confidence: float
    canaries: int
    guesses: int
    correct: int


def one_run(
    scores: npt.ArrayLike,
    included: npt.ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    guesses: int | Sequence[int] | None = None,
) -> OneRun:
    """Returns a lower bound on epsilon from a single run.

    Parameters
    ----------
    scores : ``(canaries,)`` numbers, larger if the run seems to have seen the canary. A guess about a canary whose
        score is NaN counts as wrong.
    included : ``(canaries,)`` booleans, True if the canary was included. These booleans must be independent fair coins
        (``coins``).
    delta, confidence : the bound holds at ``delta`` with probability at least ``confidence``.
    guesses : the number of canaries to guess, fixed before the run. Half of the guesses are "in", for the largest
        scores, and half are "out", for the smallest. The other canaries are not guessed. A list of several numbers is
        tried number by number, each with an equal share of 1 - confidence. None tries all canaries, and 1/2, 1/4, ...
        1/32 of them.

    Neighbours differ by adding or removing one record. The source is Steinke, Nasr and Jagielski, NeurIPS 2023. Their
    Theorem 5.2 is the case of delta 0.

    Raises ValueError for an argument of another shape or out of its range.

    >>> import numpy as np
    >>> g = np.random.default_rng(1)
    >>> inside = g.random(2000) < 0.5
    >>> found = one_run(inside + 0.5 * g.normal(size=2000), inside, delta=1e-6)  # each canary: Gaussian mechanism
    >>> bool(2.0 < found.epsilon)
    True
    """
    s, coins = convert_attack_scores("scores", scores), np.asarray(included)
    if s.ndim != 1 or not 1 <= len(s) <= MOST_TRIALS:
        raise ValueError(f"scores must have shape (canaries,) with 1 to {MOST_TRIALS} of them, got shape {s.shape}")
    if coins.shape != s.shape or not np.isin(coins, (0, 1)).all():
        raise ValueError("included must be booleans, one for each canary")
    d = _check.closed_unit("delta", delta)
    error = 1 - _check.open_unit("confidence", confidence)
    m = len(s)
    if guesses is None:
        menu = sorted({max(1, m >> k) for k in range(6)})
    else:
        menu = [
            _check.check_count_argument("guesses", k, most=m)
            for k in ([guesses] if isinstance(guesses, (int, np.integer)) else list(guesses))
        ]
        if not menu:
            raise ValueError("guesses must hold at least one number")
    order = np.argsort(np.where(np.isnan(s), 0.0, s), kind="stable")
    found = []
    for r in menu:
        low, high = order[: r // 2], order[m - (r - r // 2) :]
        known = ~np.isnan(s)
        correct = int((known[high] & (coins[high] == 1)).sum() + (known[low] & (coins[low] == 0)).sum())
        bound = epsilon_from_guesses(m, r, correct, delta=d, error=error / len(menu))
        found.append(OneRun(bound, d, confidence, m, r, correct))
    return max(found, key=lambda f: f.epsilon)


def p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Returns a bound on the chance of ``correct`` or more right guesses under (epsilon, delta)-DP, for any guesser.

    The guesser guessed ``guesses`` of ``canaries`` coins. These numbers are integers, epsilon is in [0, inf), and delta
    is in [0, 1]. Raises ValueError for a number out of its range.

    Let W be binomial with ``guesses`` trials of success probability 1/(1 + e^-epsilon), and v = ``correct``. The bound
    is P[W >= v], plus the largest probability that failures can add. A failure is a guess that is right only because
    delta is above 0. The mean number of failures is at most canaries * delta / (1 + e^epsilon). Each failure turns one
    wrong guess into a right one. Failures add the most to the probability of v or more right guesses if they happen
    where W is just below v.

    >>> from tightdp.audit import p_value
    >>> round(p_value(canaries=100, guesses=10, correct=10, epsilon=0.0, delta=0.0) * 2**10, 6)  # ten fair coins
    1.0
    """
    m = _check.check_count_argument("canaries", canaries, most=MOST_TRIALS)
    r = _check.check_count_argument("guesses", guesses, least=0, most=m)
    v = _check.check_count_argument("correct", correct, least=0, most=r)
    eps = _check.nonnegative("epsilon", epsilon)
    d = _check.closed_unit("delta", delta)
    q = 1 / (1 + math.exp(-eps))
    total, left = compute_attack_tail_probability(v, r, q), m * d * (1 - q)
    short = 1
    while left > 0 and short <= v and total < 1:
        likely = math.exp(compute_attack_log_pmf(v - short, r, q))
        total += min(likely, left / short)
        left -= short * likely
        short += 1
    return min(1.0, total * (1 + TAIL_ERROR))


def epsilon_from_guesses(canaries: int, guesses: int, correct: int, *, delta: float, error: float) -> float:
    """Returns the largest epsilon that a search finds to be refuted, or 0 if no epsilon is refuted.

    A p-value of at most ``error`` refutes (epsilon, ``delta``)-DP.

    ``canaries``, ``guesses`` and ``correct`` are as for ``p_value``, which raises ValueError for a number out of its
    range. ``error`` is in (0, 1).

    >>> round(epsilon_from_guesses(1000, 200, 180, delta=1e-5, error=0.05), 2)
    1.8
    """
    if p_value(canaries, guesses, correct, 0.0, delta) > error:
        return 0.0
    refuted = partial(p_value, canaries, guesses, correct, delta=delta)
    return bracket_monotone_crossing(lambda epsilon: refuted(epsilon) <= error, _LARGEST, 1e-15, _LARGEST)[0]


def coins(canaries: int) -> npt.NDArray[np.bool_]:
    """Returns a fair coin for each canary, from the operating system's generator.

    ``canaries`` is their number, an integer >= 1. Raises ValueError for another number.

    >>> coins(3).shape
    (3,)
    """
    return SecureRandom().bernoulli(0.5, _check.check_count_argument("canaries", canaries, most=MOST_TRIALS))
