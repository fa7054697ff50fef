"""The values that occur often in a column: a release that is charged (docs/theory/frequent.md)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from os import PathLike
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from .. import _check
from ..accounting.calibrate import calibrate
from ..bound import Bound
from ..composition import Composition
from ..ledger import Ledger
from ..mechanisms import ApproximateDP, Gaussian
from ..release.exact_noise import rounded_gaussian
from ..release.noise import Philox, RandomSource
from ..statement import Statement
from .text import text_of

SHARE = 0.5
"""Of delta for a value that one record alone has: the threshold depends on its logarithm."""
MOST_NOISE = 2.0**32
LEAST = 5e-301
"""Of a failure: the tail that the threshold rests on is accurate so far."""


class FrequentValues(NamedTuple):
    """What ``frequent_values`` released: all of it may be published."""

    values: tuple[str, ...]
    """Sorted, so that their order reveals nothing."""
    threshold: int
    """The least noisy count of a value that is released."""
    charged: Composition
    privacy: Bound
    """Bound on epsilon at the delta asked for."""
    statement: Statement


def frequent_values(
    values: Iterable[Any],
    *,
    epsilon: float,
    delta: float,
    missing: Iterable[str] = ("",),
    rng: RandomSource | None = None,
    ledger: Ledger | str | PathLike[str] | None = None,
    note: str = "frequent_values",
) -> FrequentValues:
    """The values of a column, as text, whose noisy counts reach a threshold.

    Use them as the categories or labels of a model. The list of all values that occur would not be private.

    Parameters
    ----------
    values : one for each record; ``str`` makes a text of each, and whole floats are written as integers
    epsilon, delta : the guarantee, add/remove one record; delta in [1e-300, 1). Half of delta covers the case that a
        value of one record alone reaches the threshold
    missing : texts that stand for no value
    rng : None is the operating system's secure generator; a ``Philox`` is for experiments
    ledger : is charged first, with ``note``. It needs a ``failure`` of delta/2 or more

    A record adds one to one count. The noise of a count is a rounded normal number, sampled exactly. The time that it
    takes depends on the number of different values, and is not protected.

    >>> import tightdp as dp
    >>> clinics = ["north"] * 600 + ["south"] * 400 + ["Clinic of Jane Doe"]
    >>> found = dp.frequent_values(clinics, epsilon=0.5, delta=1e-6)
    >>> found.values, found.privacy.upper <= 0.5
    (('north', 'south'), True)
    """
    epsilon, delta = _check.positive("epsilon", epsilon), _check.open_unit("delta", delta)
    if delta < 1e-300:
        raise ValueError(f"delta must be a number in [1e-300, 1), got {delta!r}")
    failing = ApproximateDP(0.0, SHARE * delta)
    sigma = float(calibrate(lambda z: Gaussian(z) + failing, epsilon=epsilon, delta=delta))
    if sigma > MOST_NOISE:
        raise ValueError(f"epsilon must be larger: it would take noise of {sigma:.2g} records")
    if isinstance(values, (str, bytes)):
        raise TypeError("values must be a sequence of values, one for each record, got one text")
    for name, given, accepted in (("values", values, "values, one for each record"), ("missing", missing, "texts")):
        if not np.iterable(given):
            raise TypeError(f"{name} must be a sequence of {accepted}, got {given!r}")
    counts = occurring(map(text_of, values), missing)
    charged, least = Gaussian(sigma) + failing, threshold(sigma, failing.nominal_delta)
    book = ledger if ledger is None or isinstance(ledger, Ledger) else Ledger(ledger)
    if book is not None:
        book.spend(charged, note=note)
    kept = reaching(counts, sigma, least, rng)
    privacy = charged.epsilon(delta)
    statement = Statement(
        "the frequent values of a column",
        privacy,
        delta,
        charged,
        released=(f"{len(kept):,} values, whose noisy counts reach {least:,}",),
        public={"missing": "the texts that stand for no value"},
        seeded=isinstance(rng, Philox),
        ledger=None if book is None else f"that of {book.dataset!r}",
    )
    return FrequentValues(kept, least, charged, privacy, statement)


def occurring(texts: Iterable[str], missing: Iterable[str]) -> Counter[str]:
    """How many records have each value."""
    none = frozenset(missing)
    return Counter(text for text in texts if text not in none)


def reaching(counts: Counter[str], sigma: float, least: int, rng: RandomSource | None) -> tuple[str, ...]:
    """The values whose noisy counts reach ``least``, sorted: the release, which the caller has paid for. It does not
    depend on the order in which values were met."""
    noise = rounded_gaussian(sigma, len(counts), rng=rng).tolist()
    return tuple(value for value, extra in zip(sorted(counts), noise, strict=True) if counts[value] + extra >= least)


def frequent_in_columns(
    counts: Sequence[Counter[str]], noise_multiplier: float, failure: float, rng: RandomSource
) -> list[tuple[str, ...]]:
    """The frequent values of each of several columns of the same records, of which ``counts`` are made, paid for by the
    caller: ``Gaussian(noise_multiplier)`` beside ``ApproximateDP(0, failure)`` (docs/theory/frequent.md, section 2)."""
    sigma, least = column_threshold(len(counts), noise_multiplier, failure)
    return [reaching(each, sigma, least, rng) for each in counts]


def column_threshold(columns: int, noise_multiplier: float, failure: float) -> tuple[float, int]:
    """The noise of one count, and the threshold. ValueError for more noise than there are records anywhere."""
    sigma = noise_multiplier * math.sqrt(columns) * (1 + 2.0**-50)
    if sigma > MOST_NOISE:
        raise ValueError(f"epsilon must be larger: it would take noise of {sigma:.2g} records")
    each = failure / columns * (1 - 2.0**-50)
    if each < LEAST:
        raise ValueError(f"delta must be larger: {each:.2g} of it are left for each column, and {LEAST:g} is the least")
    return sigma, threshold(sigma, each)


def threshold(sigma: float, failure: float) -> int:
    """The least T with P(1 + floor(sigma Z + 1/2) >= T) <= failure, Z standard normal; never less."""
    least = max(2, math.ceil(1.5 - sigma * NormalDist().inv_cdf(failure)) - 2) if failure < 0.5 else 2
    while 0.5 * math.erfc((least - 1.5) / sigma / math.sqrt(2)) * (1 + 1e-9) > failure:
        least += 1
    return least
