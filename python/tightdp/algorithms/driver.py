"""The function ``fit``, which trains a model by an algorithm within a budget, and reports the charge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from .._support import _check
from ..bound import Bound
from ..clipping_and_noise.noise import Philox, RandomSource, SecureRandom
from ..composition import Composition
from ..ledger import Ledger
from ..ledger.payment import LedgerPayment
from ..mechanisms import Mechanism
from ..models.linear import LinearModel
from ..models.model_interface import Model, Vector
from ..models.model_records import Records
from ..records.blocks import (
    Blocks,
    resolve_largest_weight_of_records,
    scale_weights_of_records,
    validate_record_block_weights,
)
from ..records.decoded_copies import cache_decoded_blocks
from ..records.record_cells import as_targets_of_record_cells
from ..records.sources.choose_source import as_source_blocks
from ..records.stream import RecordStream
from ..release_gate.budget import Target
from ..release_gate.gate import Gate
from ..release_gate.oracle import Oracle, Public
from .building_blocks.algorithm import Algorithm, check_algorithm_release_count
from .record_count import release_record_count_for_algorithm

Callback = Callable[[int, int | None], object]
"""Function that is called with the number of releases so far, and the number of all releases or None."""


class Fit(NamedTuple):
    """The result of a private fit. Every field may be published.

    Fields
    ------
    parameters : the trained vector
    privacy : the bound on epsilon, in nats
    charged : the composition that was charged for the run
    history : the mechanisms of the releases
    size : the number of records
    used : the settings that the plan chose

    ``fit`` returns this result. The docstring of ``fit`` lists the errors that it raises instead.

    >>> import numpy as np
    >>> from tightdp.train import CallableModel, NoisyGD, fit
    >>> model = CallableModel(1, lambda w, X, y: (X @ w - y)[:, None] * X)
    >>> settings = {"epsilon": 1.0, "delta": 1e-6, "public_size": 2000}
    >>> found = fit(model, np.ones((2000, 1)), np.zeros(2000), NoisyGD(steps=20), **settings)
    >>> len(found.history), found.size, found.used["steps"], found.privacy <= 1.0
    (20, 2000, 20, True)
    """

    parameters: Vector
    privacy: Bound
    """Bound on the epsilon of ``charged``, at the ``delta`` of ``fit``."""
    charged: Composition
    """Composition of the planned releases. If earlier releases decide about later ones, the releases are not known in
    advance. The budget then has caps, and this composition dominates all releases within the caps
    (``tightdp.release_gate.budget.Caps``)."""
    history: tuple[Mechanism, ...]
    """Mechanisms of the releases, in order. If the number of records was not public, the first release is a noisy
    count."""
    size: int
    """The number of records with which the run computed. The number is public or was released."""
    used: Mapping[str, Any] = MappingProxyType({})
    """Values that the plan chose, from public facts, for settings that the algorithm's caller left open."""


@cache_decoded_blocks
def fit(
    model: Model,
    X: Any,
    y: Any,
    algorithm: Algorithm,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    public_size: int | None = None,
    regularization: float = 0.0,
    random_state: int | None = None,
    callback: Callback | None = None,
    ledger: Ledger | LedgerPayment | str | PathLike[str] | None = None,
    note: str = "fit",
    sample_weight: Any = None,
    max_sample_weight: float | None = None,
    initial: Vector | None = None,
) -> Fit:
    """Trains any model privately. The classifiers call this function. For your own model pass a ``CallableModel``.

    Parameters
    ----------
    model : public description of the loss.
    X : (n, d) array of float32 or float64, ``Blocks``, ``Records`` or a ``RecordStream``. A record (a row of the array)
        with a NaN or an infinity contributes nothing. ``Records`` and a ``RecordStream`` also hold targets and weights.
    y : (n,) targets, in whatever form the model takes; None with ``Blocks``, which hold the targets.
    note : text that the ledger keeps with the charge.
    sample_weight : (n,) numbers >= 0 that multiply the losses. Each weight is public or a function of its own record.
        ``Blocks`` may hold the weights.
    max_sample_weight : the largest weight, as for the classifiers; required if records have weights.
    initial : the first parameters, which must be public or follow from earlier releases; None takes the model's own.
    algorithm : the training algorithm, such as ``NoisyGD()``
    epsilon, delta : the guarantee to meet, for adding or removing one record. epsilon is in (0, 1e6], in nats, and
        delta in (0, 1).
    public_size : the public number of records; None releases a noisy count first
    regularization : lambda >= 0 of the penalty lambda/2 |w|^2
    callback : called after each release with the number of releases so far and in total
    random_state, ledger : as for the classifiers (``PrivateClassifier``)

    Raises ``ValueError`` or ``TypeError``, which names the argument and its range. Raises ``BudgetExceeded`` if the
    ledger does not cover the run, and ``LedgerError`` if the ledger fails. Errors of settings and of the ledger
    come before any record is used. A ``ValueError`` comes later if a function of the model returns an array of a wrong
    shape, or if ``public_size`` is None and the algorithm has no plan for the released number of records.

    >>> import numpy as np
    >>> from tightdp.train import CallableModel, NoisyGD, fit
    >>> def gradients(w, X, y):  # least squares
    ...     return (X @ w - y)[:, None] * X
    >>> x = np.linspace(-1, 1, 5000)[:, None]

    One epsilon pays for all steps of least squares.

    >>> run = fit(CallableModel(1, gradients), x, 0.5 * x[:, 0], NoisyGD(), epsilon=1.0, delta=1e-6, random_state=0)
    >>> bool(abs(run.parameters[0] - 0.5) < 0.1), run.privacy.upper <= 1.0
    (True, True)
    """
    check_driver_algorithm_settings(algorithm, callback)
    target = Target.from_arguments(epsilon, delta)
    regularization = _check.nonnegative("regularization", regularization)
    source = make_algorithm_source(random_state)
    payment = ledger if isinstance(ledger, LedgerPayment) else LedgerPayment(ledger, note)
    records = _prepare_algorithm_records(X, y, sample_weight, max_sample_weight)
    check_records_for_algorithm(algorithm, isinstance(records, RecordStream))
    sampler = make_algorithm_batch_source(random_state)
    linear = model if isinstance(model, LinearModel) else None
    if public_size is None:
        unknown = Public(0, model.size, regularization, linear)
        public, plan, gate, charged, count = release_record_count_for_algorithm(
            algorithm, unknown, target, Oracle(model, records, unknown, sampler), source, callback, payment.spend_charge
        )
        before: tuple[Mechanism, ...] = (count,)
    else:
        public = Public(_check.check_count_argument("public_size", public_size), model.size, regularization, linear)
        plan = algorithm.plan(public, target)
        check_algorithm_release_count(plan)
        progress = None if callback is None else lambda done: callback(done, plan.releases)
        charged, before = plan.budget.charge(), ()
        gate = Gate(plan.budget, source, progress, partial(payment.spend_charge, charged))
    start = model.make_initial_parameters(source.uniform) if initial is None else np.array(initial, np.float64)
    parameters = plan.run(Oracle(model, records, public, sampler), gate, start)
    return Fit(parameters, charged.epsilon(target.delta), charged, before + gate.history, public.records, plan.used)


def check_driver_algorithm_settings(algorithm: Any, callback: Any) -> None:
    """Raises TypeError unless ``algorithm`` is an algorithm with its settings, and ``callback`` a function or None."""
    if isinstance(algorithm, type) or not callable(getattr(algorithm, "plan", None)):
        raise TypeError(f"algorithm must be an algorithm with its settings, such as DPSGD(), got {algorithm!r}")
    _check.check_function_argument("callback", callback, "done, total", optional=True)


def check_records_for_algorithm(algorithm: Algorithm | None, in_blocks: bool) -> None:
    """Raises ValueError for records in blocks if the algorithm needs them in memory. None is the default algorithm."""
    if in_blocks and getattr(algorithm, "in_memory", False):
        raise ValueError(
            f"algorithm must be one that needs sums alone where X comes in blocks, such as NoisyGD, DPSGD, DPAGD or "
            f"AdaCliP: {type(algorithm).__name__} needs all records in memory"
        )


def _prepare_algorithm_records(X: Any, y: Any, weights: Any, declared: float | None) -> Records | RecordStream:
    """Returns the records of arrays or blocks, after checks of their types and shapes."""
    if isinstance(X, (Records, RecordStream)):
        return X
    largest = resolve_largest_weight_of_records(declared, weights is not None or (isinstance(X, Blocks) and X.weighted))
    if isinstance(X, Blocks):
        return RecordStream.from_blocks(as_source_blocks(X, y, sample_weight=weights) or X, Records, largest=largest)
    features, targets = np.asarray(X, dtype=None if hasattr(X, "dtype") else np.float64), as_targets_of_record_cells(y)
    if features.ndim != 2 or features.dtype not in (np.float32, np.float64):
        raise ValueError(f"X must be a 2-D array of float32 or float64, got {features.ndim}-D of {features.dtype}")
    if len(targets) != len(features):
        raise ValueError(f"y must have one target for each record: got {len(targets)} for {len(features)} records")
    if weights is not None:
        weights = scale_weights_of_records(validate_record_block_weights(weights, len(features)), largest)
    return Records(features, targets, weights=weights)


def make_algorithm_batch_source(random_state: Any) -> RandomSource:
    """Returns a random source for batches alone.

    The k-th stream of this source draws the k-th batch, and does not depend on any other random numbers. So the batches
    of later steps can be gathered in advance."""
    return SecureRandom() if random_state is None else Philox(int(random_state), 2**63)


def make_algorithm_source(random_state: Any) -> RandomSource:
    """Returns the random source for an estimator's ``random_state``. Raises TypeError or ValueError unless the argument
    is None or a seed."""
    if random_state is None:
        return SecureRandom()
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        return Philox(_check.check_count_argument("random_state", random_state, least=0, most=2**64 - 1))
    raise TypeError(f"random_state must be None (secure) or an int in [0, 2^64), got {random_state!r}")
