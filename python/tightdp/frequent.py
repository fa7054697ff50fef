"""Releases the values that occur often in a column, and charges for the release (docs/theory/frequent.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from ._support import _check
from .accounting.questions.calibration import calibrate
from .bound import Bound
from .clipping_and_noise.noise import Philox, RandomSource, resolve_random_source
from .composition import Composition
from .ledger import Ledger
from .ledger.payment import LedgerPayment
from .mechanisms import ApproximateDP, Gaussian
from .records.record_cells import convert_cell_value_to_text
from .release_gate.budget import FixedPlan
from .release_gate.count_threshold import MOST_NOISE, compute_count_noise_and_threshold, count_values_for_threshold
from .release_gate.gate import Gate
from .release_gate.shares import NoiseShare
from .statement import Statement

SHARE = 0.5
"""Share of delta that bounds the probability of releasing a value that only one record has.

The threshold depends on the logarithm of this share, so the exact share matters little."""


class FrequentValues(NamedTuple):
    """The result of ``frequent_values``. All of its fields may be published.

    Fields
    ------
    values : the texts that reached the threshold
    threshold : the number of records that the noisy count of a released value must reach
    charged : the composition of the releases
    privacy : the bound on epsilon, in nats
    statement : the ``Statement`` of the release

    ``frequent_values`` returns this result, or raises an error about its arguments or the ledger.

    >>> found = frequent_values(["a"] * 900 + ["b"], epsilon=0.5, delta=1e-6)
    >>> found.values, found.threshold > 2, found.privacy <= 0.5
    (('a',), True, True)
    """

    values: tuple[str, ...]
    """The released values, sorted, so that their order reveals nothing."""
    threshold: int
    """Number of records that a value's noisy count must reach for the value to be released."""
    charged: Composition
    privacy: Bound
    """Bound on epsilon at the ``delta`` that was given."""
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
    """Returns the values of a column whose noisy counts reach a threshold. The values are texts.

    Use the returned values as the categories or labels of a model. A list of all values would reveal rare values.

    Parameters
    ----------
    values : one value for each record. Values are converted to text by ``str``; whole floats are written as integers.
    epsilon, delta : the guarantee, add/remove one record; delta in [1e-300, 1). Half of delta bounds the
        probability of releasing a value that only one record has.
    missing : texts that stand for no value.
    rng : None is the operating system's secure generator; a ``Philox`` is for experiments.
    ledger : a ledger that is charged before the release, with ``note``. A ledger has a limit
        ``failure`` for the total probability that guarantees fail. This limit must be more than delta/2.

    A record adds one to a single count. The noise of a count is a rounded normal number, sampled exactly. The running
    time of this function depends on the number of different values, and is not protected.

    Raises ValueError for an argument out of its range, TypeError if ``values`` is a text or no sequence, and
    ``BudgetExceeded`` if the ledger refuses the charge. In each of these cases nothing is released.

    >>> import tightdp as dp
    >>> clinics = ["north"] * 600 + ["south"] * 400 + ["Clinic of Jane Doe"]
    >>> found = dp.frequent_values(clinics, epsilon=0.5, delta=1e-6)
    >>> found.values, found.privacy.upper <= 0.5
    (('north', 'south'), True)
    """
    epsilon, delta = _check.positive("epsilon", epsilon), _check.open_unit("delta", delta)
    spent = _calibrate_frequent_values(epsilon, delta)
    _check_frequent_values(values, missing)
    counts = count_values_for_threshold(map(convert_cell_value_to_text, values), missing)
    charged = Gaussian(spent.noise_multiplier) + ApproximateDP(0.0, spent.failure)
    _, least = compute_count_noise_and_threshold(1, *spent)
    payment = LedgerPayment(ledger, note)
    gate = Gate(FixedPlan(charged), resolve_random_source(rng), pay=partial(payment.spend_charge, charged))
    (kept,) = gate.release_frequent_values(1, lambda: [counts], spent).value
    privacy = charged.epsilon(delta)
    statement = Statement(
        "the frequent values of a column",
        privacy,
        delta,
        charged,
        released=(f"{len(kept):,} values, whose noisy counts reach {least:,}",),
        public={"missing": "the texts that stand for no value"},
        seeded=isinstance(rng, Philox),
        ledger=payment.ledger_text,
    )
    return FrequentValues(kept, least, charged, privacy, statement)


def _calibrate_frequent_values(epsilon: float, delta: float) -> NoiseShare:
    """Returns the noise of the counts, and the part of delta for releasing a value that only one record has."""
    if delta < 1e-300:
        raise ValueError(f"delta must be a number in [1e-300, 1), got {delta!r}")
    failing = ApproximateDP(0.0, SHARE * delta)
    sigma = float(calibrate(lambda z: Gaussian(z) + failing, epsilon=epsilon, delta=delta))
    if sigma > MOST_NOISE:
        raise ValueError(f"epsilon must be larger: it would take noise of {sigma:.2g} records")
    return NoiseShare(sigma, failing.nominal_delta)


def _check_frequent_values(values: Any, missing: Any) -> None:
    """Raises TypeError unless ``values`` is one column of values and ``missing`` is a sequence."""
    if isinstance(values, (str, bytes)):
        raise TypeError("values must be a sequence of values, one for each record, got one text")
    if isinstance(values, Mapping) or hasattr(values, "columns") or len(getattr(values, "shape", ())) > 1:
        raise TypeError(f"values must be one column, one value for each record, got {type(values).__name__}")
    for name, given, accepted in (("values", values, "values, one for each record"), ("missing", missing, "texts")):
        if not np.iterable(given):
            raise TypeError(f"{name} must be a sequence of {accepted}, got {given!r}")
