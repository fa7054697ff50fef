"""The statements of fitted models: what a fit took to be public, and what it released."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..bound import Bound
from ..composition import Composition
from ..ledger import Ledger
from ..statement import Statement

MOST = 20
"""How many labels or bounds a statement lists."""
UNSCALED = (
    "How the features were made: they were used as they are, so whatever was fitted to the data to make them, such as "
    "a scaler, is outside."
)
AGAIN = "Another fit on the same data: the next one is charged as much again."


def classifier(
    subject: str,
    model: Any,
    *,
    privacy: Bound,
    charged: Composition,
    size: int,
    parameters: int,
    ledger: Ledger | None,
) -> Statement:
    """The statement of a fitted ``PrivateClassifier``."""
    counted = model.public_size is None
    labels = listed([str(label) for label in model.classes_])
    public = {
        "number of records": "private, and a noisy count was released" if counted else f"given: {model.public_size:,}",
        "columns": f"their number, {model.n_features_in_}, and their order",
        "labels": ("those that occur" if model.classes is None else "declared") + f": {labels}",
        "bounds of the features": "none" if model.bounds is None else f"declared: {bounds_of(model.bounds)}",
    }
    released = [f"the fitted parameters, {parameters:,} numbers"]
    if counted:
        released.append(f"the number of records with noise, {size:,}")
    return Statement(
        subject,
        privacy,
        float(model.delta),
        charged,
        released=tuple(released),
        public=public,
        size=size,
        taken=("labels",) if model.classes is None else (),
        seeded=model.random_state is not None,
        outside=(AGAIN,) if model.bounds is not None else (UNSCALED, AGAIN),
        ledger=name_of(ledger),
    )


def name_of(ledger: Ledger | None) -> str | None:
    return None if ledger is None else f"that of {ledger.dataset!r}, ({ledger.epsilon:g}, {ledger.delta:g}) in all"


def listed(values: Sequence[str]) -> str:
    """The first of them."""
    more = f", and {len(values) - MOST:,} more" if len(values) > MOST else ""
    return ", ".join(values[:MOST]) + more


def bounds_of(given: Any) -> str:
    """Public bounds, one interval or one for each column."""
    low, high = (np.atleast_1d(np.asarray(b, dtype=np.float64)) for b in given)
    low, high = np.broadcast_arrays(low, high)
    return listed([f"[{a:g}, {b:g}]" for a, b in zip(low, high, strict=True)])
