"""The gate, the only place where values computed from records become releases.

For each release the gate asks the budget, evaluates the query and adds noise, in this order. So no record is read for a
release that the budget refuses. The gate keeps a frozen ``Mechanism`` for each release, and the account consists of
these mechanisms.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

import numpy as np

from .._support import _check
from ..clipping_and_noise.kernels import add_rounded_normals
from ..clipping_and_noise.noise import RandomSource
from ..mechanisms import ApproximateDP, BoundedRange, Gaussian, Mechanism, PoissonSampled, PureDP
from ..models.contribution_grid import FAST, MOST
from ..models.model_interface import Vector
from .budget import ReleaseBudget
from .count_threshold import compute_count_noise_and_threshold, select_values_above_threshold
from .minimum_query import PerturbedMinimumQuery
from .oracle import Integers, Query
from .selection import SelectionCoins, select_score_by_exponential_mechanism, select_score_by_permute_and_flip
from .shares import NoiseShare

T = TypeVar("T", Vector, int, list[tuple[str, ...]])


@dataclass(frozen=True)
class Release(Generic[T]):
    """A released value and the mechanism that was charged for it.

    ``value`` is an array, an index or texts, and may be published. Methods of ``Gate`` make releases. If the budget
    does not cover a release, the method raises an error instead.

    >>> from tightdp.train import Release
    >>> Release(3, dp.PureDP(0.1)).value
    3
    """

    value: T
    mechanism: Mechanism


class Gate:
    """A gate, which releases the values of queries and charges the budget for each.

    Parameters
    ----------
    budget : asked to ``spend`` the mechanism before each release. If it raises ``BudgetExceeded``, nothing is spent.
    source : random source that draws the Poisson batches and the noise.
    callback : called after each release with the number of mechanisms that were charged so far.
    pay : a function that charges a ledger for the whole run, or raises. It is called once, after the first release has
        passed all checks and before any record is read.

    One query is built and released like this:

    >>> import numpy as np
    >>> from tightdp.train import CallableModel, FixedPlan, Gate, Oracle, Public, Records
    >>> model = CallableModel(2, lambda w, X, y: X)  # the gradients are the features
    >>> records = Records(np.full((1000, 2), 0.5), np.zeros(1000))
    >>> oracle = Oracle(model, records, Public(records=1000, size=model.size))

    The plan of this gate allows a single release.

    >>> gate = Gate(FixedPlan(dp.Gaussian(3.0) * 1), dp.SecureRandom())
    >>> release = gate.release_gaussian(oracle.gradient_sum_query(np.zeros(2), max_norm=1.0), noise_multiplier=3.0)
    >>> bool(np.all(np.abs(release.value - 500) < 60)), release.mechanism
    (True, Gaussian(noise_multiplier=3.0))
    """

    def __init__(
        self,
        budget: ReleaseBudget,
        source: RandomSource,
        callback: Callable[[int], object] | None = None,
        pay: Callable[[], object] | None = None,
    ) -> None:
        self._callback = _check.check_function_argument("callback", callback, "releases", optional=True)
        self._budget, self._source, self._pay = budget, source, pay
        self._history: list[Mechanism] = []
        self._lock = threading.Lock()

    @property
    def history(self) -> tuple[Mechanism, ...]:
        """Mechanisms of the releases so far, in order."""
        with self._lock:
            return tuple(self._history)

    def release_gaussian(self, query: Query, noise_multiplier: float) -> Release[Vector]:
        """Releases the query's value + N(0, (noise_multiplier * sensitivity)^2 I), rounded to a grid.

        The grid is the query's. Its spacing is multiplied by a power of two if such large noise would overflow.
        If the query has a ``scale``, the standard deviation in each coordinate is multiplied by the coordinate's scale.
        For an empty batch, the noise alone is released.

        Returns the ``Release``. If the budget does not cover the release, raises ``BudgetExceeded`` and releases
        nothing.
        """
        charge = Gaussian(noise_multiplier)
        shift, deviation = _choose_query_shift_and_deviation(query, charge.noise_multiplier)
        mechanism = self._spend_at_gate(charge, query.sampling_probability)
        value = np.array(query.evaluate(self._source), dtype=np.int64) >> shift
        self._add_noise(deviation, value)
        value = value << shift >> shift  # kept modulo 2^(64 - shift), since the sum wraps modulo 2^64
        return self._finish_gate_release(value.astype(np.float64) * math.ldexp(query.grid, shift), mechanism)

    def release_least_index(
        self, query: Query, mechanism: BoundedRange | PureDP, *, offset: Vector | float = 0.0
    ) -> Release[int]:
        """Releases the index of (about) the smallest sum of a score and its ``offset``.

        Offsets are public, and are rounded to the query's grid.

        With ``BoundedRange(eta)`` the index is chosen by the exponential mechanism, which adds Gumbel noise of scale
        sensitivity / eta to the scores. With ``PureDP(epsilon)`` the index is chosen by permute-and-flip, which adds
        exponential noise of scale sensitivity / epsilon. These scales are enough because one record moves all scores in
        the same direction. Both mechanisms are sampled exactly (docs/theory/selection.md).

        ``query`` must be a query of scores. ``offset`` is a number, or has one number for each score. Returns the
        ``Release`` of the index. Raises ValueError for another kind of query.
        """
        if not query.scores:
            raise ValueError("query must be a query of scores")
        if isinstance(mechanism, BoundedRange):
            rate, choose = _check.positive("eta", mechanism.eta), select_score_by_exponential_mechanism
        else:
            rate, choose = _check.positive("epsilon", mechanism.nominal_epsilon), select_score_by_permute_and_flip
        spent = self._spend_at_gate(mechanism, query.sampling_probability)
        with np.errstate(over="ignore"):  # an overflow gives infinity, which nan_to_num makes finite
            shift = np.nan_to_num(np.rint(np.broadcast_to(offset, query.shape) / query.grid))
        scores = [int(s) + int(o) for s, o in zip(query.evaluate(self._source), shift, strict=True)]
        a_step = Fraction(rate) * Fraction(query.grid) / Fraction(query.sensitivity)
        return self._finish_gate_release(choose(scores, a_step, SelectionCoins(self._source)), spent)

    def release_frequent_values(
        self, columns: int, counts: Callable[[], Sequence[Counter[str]]], spent: NoiseShare
    ) -> Release[list[tuple[str, ...]]]:
        """Releases the values of each column whose noisy counts reach a threshold.

        ``counts`` returns, for each of ``columns`` columns, the number of records that have each value. Some values of
        a record may occur in no other record. The probability that any of them is released is at most
        ``spent.failure`` (docs/theory/frequent.md, section 2).

        Returns the ``Release`` of one tuple of values for each column.
        """
        sigma, least = compute_count_noise_and_threshold(columns, *spent)
        mechanism = self._spend_at_gate(Gaussian(spent.noise_multiplier))
        self._spend_at_gate(ApproximateDP(0.0, spent.failure))
        found = []
        for each in counts():
            values = sorted(each)  # the order of the records must not decide which value gets which noise
            noisy = np.array([each[value] for value in values], np.int64)
            self._add_noise(sigma, noisy)
            found.append(select_values_above_threshold(values, noisy.tolist(), least))
        return self._finish_gate_release(found, mechanism)

    def release_perturbed_minimum(
        self, query: PerturbedMinimumQuery, noise_multiplier: float, cover: float, charge: ApproximateDP
    ) -> Release[Vector]:
        """Releases the point at which an objective with a random linear term is smallest (its minimum).

        The coefficients of the linear term are noise N(0, (noise_multiplier * sensitivity)^2 I). The computed minimum
        is rounded to a grid, and a second noise is added. The standard deviation of the second noise is ``cover`` times
        ``query.cover``, the distance over which this noise hides errors of the computed minimum. The caller states the
        ``charge``, which docs/theory/perturbation.md proves.

        ``build_perturbed_minimum_query`` makes ``query``. Returns the ``Release`` of the minimum.
        """
        inside = _convert_noise_to_gate_grid_units(noise_multiplier, query.sensitivity, query.noise_grid)
        outside = _convert_noise_to_gate_grid_units(cover, query.cover, query.grid)
        spent = self._spend_at_gate(charge)
        b = np.zeros(query.shape, np.int64)
        self._add_noise(inside, b)
        value = query.evaluate(self._source, b.astype(np.float64) * query.noise_grid)
        self._add_noise(outside, value)
        return self._finish_gate_release(value.astype(np.float64) * query.grid, spent)

    def _add_noise(self, deviation: float | Vector, value: Integers) -> None:
        """Adds floor(deviation Z + 1/2) to each value, modulo 2^64, where Z is an exact standard normal draw."""
        add_rounded_normals(self._source.stream(), deviation, value.reshape(-1))

    def _spend_at_gate(self, mechanism: Mechanism, sampling_probability: float = 1.0) -> Mechanism:
        """Asks the budget for a release. Before the first release, pays the charge of the whole run. Returns the
        mechanism that was charged."""
        if sampling_probability < 1.0:
            mechanism = PoissonSampled(mechanism, sampling_probability)
        with self._lock:
            self._budget.spend(mechanism)
            if self._pay is not None:
                self._pay()
                self._pay = None
            self._history.append(mechanism)  # charged from here on, whatever happens next
        return mechanism

    def _finish_gate_release(self, value: T, mechanism: Mechanism) -> Release[T]:
        """Reports progress, and returns the value with its mechanism."""
        if self._callback is not None:
            self._callback(len(self._history))
        return Release(value, mechanism)


def find_largest_gate_noise(size: int) -> float:
    """Returns a noise multiplier with which sums of ``size`` coordinates of equal scale can be released.

    These sums can also be released with any smaller noise multiplier."""
    # _choose_query_shift_and_deviation coarsens the grid until one record moves the sum by about 2 sqrt(size) units.
    return FAST / (2.01 * math.sqrt(size))


def _choose_query_shift_and_deviation(query: Query, noise_multiplier: float) -> tuple[int, float | Vector]:
    """Returns the number of binary digits by which the sum is rounded down, and the noise's standard deviation in units
    of the rounded sum.

    Normal numbers are sampled fast if their deviation is at most ``FAST``. If the deviation would be larger, the sum is
    first rounded down to multiples of 2^shift. Rounding increases the effect of one record on each coordinate by up to
    one unit of the rounded sum (docs/theory/exact.md, section 2). The returned deviation is rounded up. It is one
    number for all coordinates, or an array with one number for each coordinate.
    """
    scale = query.scale
    squares = math.prod(query.shape) if scale is None else float((scale**-2.0).sum())
    floors, largest = math.sqrt(squares) * (1 + 1e-9), 1.0 if scale is None else float(scale.max())
    shift = 0
    while True:
        moved = math.ldexp(query.sensitivity / query.grid, -shift) + (floors if shift else 0.0)
        deviation = math.nextafter(noise_multiplier * moved * (1 + 2.0**-50), math.inf)
        if deviation * largest <= FAST:
            break
        if moved < 2 * floors or shift > 40:
            raise ValueError(
                f"noise_multiplier must be at most {noise_multiplier * (FAST / (deviation * largest)):g} for this "
                f"query's grid, got {noise_multiplier!r}"
            )
        shift += 1
    return shift, deviation if scale is None else np.nextafter(deviation * scale, np.inf)


def _convert_noise_to_gate_grid_units(noise_multiplier: float, sensitivity: float, grid: float) -> float:
    """Returns noise_multiplier * sensitivity / grid, never rounded down."""
    deviation = math.nextafter(noise_multiplier * sensitivity, math.inf) / grid
    if not deviation <= MOST:
        weight = f"{noise_multiplier:g} times one record's weight"
        raise ValueError(f"epsilon must be larger: it needs noise of {weight}, and so large noise cannot be drawn")
    return deviation
