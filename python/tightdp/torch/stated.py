"""The statement of a run: what its bound covers, rests on and leaves out."""

from __future__ import annotations

from ..ledger import Ledger
from ..statement import Statement
from ..train.algorithms.dpis import DPIS
from ..train.stated import AGAIN, name_of
from .plan import Plan

_GRADIENTS = (
    "The last bits of one record's gradient: PyTorch computes those of a physical batch in products of floats, which "
    "may round with the other records, and the proof takes each for a function of its record."
)
_PLACES = (
    "PyTorch's kernels: that the bits of one record's gradient follow from the record and its place in a physical "
    "batch, all of which have one shape and are filled in random order. A batch with more records than places, by a "
    "chance below 2^-64, has further ones."
)
_SUMS = {
    "exact": "Sums of gradients and noise are exact: what is idealised is the gradients alone.",
    "products": "Sums of gradients and noise are exact: what is idealised is the gradients alone.",
    "float": "Norms and sums of gradients are of floats, so one record may move a sum by more than the norm bound, in "
    "its last bits.",
}
_OTHERS = (
    "What prepares a record for the model, and what the model's own code keeps elsewhere than in buffers: a record "
    "must come out of the collation as if it were alone (padded to a fixed length, or masked), and nothing of it may "
    "stay."
)

_RANKS = (
    "What the processes send each other, sums without noise, norms of DPIS and the key of the noise: nobody else may "
    "read it. That they hold the same records in the same order."
)
_LOOKED_AT = (
    "How long a step takes and how much memory: DPIS looks at records by the norms of their gradients, and whoever can "
    "measure that learns how many there were."
)


def run(
    subject: str, plan: Plan, parameters: int, seeded: bool, ledger: Ledger | None, processes: int = 1,
    *, padded: bool = False,
) -> Statement:  # fmt: skip
    """The statement of a run that trains so many numbers."""
    counted = plan.count is not None
    released = [f"the parameters after each of {plan.steps:,} steps, {parameters:,} numbers"]
    if isinstance(plan.settings, DPIS) and plan.settings.norm_share is None:
        released.append(f"a sum of norms of gradients with noise before each of {plan.settings.epochs} epochs")
    if counted:
        released.append(f"the number of records with noise, {plan.records:,}")
    return Statement(
        subject,
        plan.charged.epsilon(plan.delta),
        plan.delta,
        plan.charged,
        released=tuple(released),
        public={
            "number of records": "none: a noisy count was released" if counted else f"given: {plan.records:,}",
            "model": "its form, its initial parameters, its buffers and the loss",
            "settings": f"batches of {plan.batch_size:g}, norms of at most {plan.sensitivity:g}, the optimizer",
        },
        size=plan.records,
        arithmetic="idealised",
        seeded=seeded,
        outside=(
            _SUMS[plan.arithmetic],
            _PLACES if padded else _GRADIENTS,
            _OTHERS,
            *([] if processes == 1 else [_RANKS]),
            *([_LOOKED_AT] if isinstance(plan.settings, DPIS) else []),
            AGAIN,
        ),
        ledger=name_of(ledger),
    )
