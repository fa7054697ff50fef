"""The statement of a run: what its bound covers, assumes and leaves out.

The texts below describe the assumptions of a bound. Each text is part of the statements of some kinds of runs.
"""

from __future__ import annotations

from typing import Any

import torch

from ...algorithms.dpis import DPIS
from ...ledger import Ledger
from ...ledger.payment import name_ledger_payment
from ...statement import Statement
from ...statement.parameters import hash_statement_parameters_of_state_dict
from ...statement.wording import (
    AGAIN,
    RECORDS,
    format_stated_exactly,
    state_noisy_record_count,
    state_public_record_count,
)
from ..model_checks.model_checks import is_sharded_model_parameter
from ..plan.plan import Plan

_GRADIENTS = (
    "The last bits of one record's gradient: PyTorch computes the gradients of a physical batch together, and their "
    "roundings may depend on the other records. The proof assumes that each gradient is a function of its record alone."
)
_PLACES = (
    "PyTorch's kernels: that the bits of one record's gradient follow from the record and its place in a physical "
    "batch, all of which have one shape. Each record draws its place by itself."
)
_SUMS = {
    "auto": "The roundings of single gradients: their sums and the noise are exact. Gradients come from one backward "
    "pass where it serves records of their form, and from torch.func.vmap where it does not.",
    "one-by-one": "The roundings of single gradients: their sums and the noise are exact.",
    "exact": "The roundings of single gradients: their sums and the noise are exact.",
    "products": "The roundings of single gradients: their sums and the noise are exact.",
    "float": "The roundings of gradients, their norms and their sums: one record may move a sum by slightly more than "
    "the norm bound.",
}
_OTHERS = (
    "What code of the user's hides on purpose: the data set, the collation, the model and the loss get one record at a "
    "time, and must keep nothing of it elsewhere than in what they return. What the data set returns for a record must "
    "follow from that record alone, and not from others that it reads beside it."
)
_ONE_BY_ONE = (
    "That the model keeps nothing between records: they go through it one after the other, and its code sees their "
    "values. Its buffers and parameters are compared, and a few records are tried again after others."
)

_RANKS = (
    "What the processes send each other: sums without noise, the key of the noise, and with DPIS norms of gradients. "
    "Nobody else may read it. All processes must hold the same records in the same order."
)
_LOOKED_AT = (
    "The time and the memory of a step: DPIS looks at a number of records that depends on the norms of their "
    "gradients, and someone who measures the step learns that number."
)

_FAILED = (
    "That errors ended this run so often, and that it went on: {}. The cause of an error may be a record, and then the "
    "error tells that it was drawn."
)

_RESUMED = (
    "That no other copy of this run went on from the same state: it has no ledger, which would have refused the copy "
    "that falls behind. Each copy may have released steps that were charged once."
)


def hash_model_state(model: Any) -> str | None:
    """Returns the hash of a model's ``state_dict``, or None if it cannot be hashed.

    A ``state_dict`` cannot be hashed if it holds other values than tensors, or if parameters are sharded over
    processes.
    """
    state = model.state_dict()
    if any(is_sharded_model_parameter(each) or not isinstance(each, torch.Tensor) for each in state.values()):
        return None
    return hash_statement_parameters_of_state_dict(state)


def make_run_statement(
    subject: str, plan: Plan, parameters: int, seeded: bool, ledger: Ledger | None, run: str, processes: int = 1,
    *, padded: bool = False, failures: int = 0, resumed: bool = False, hashed: str | None = None,
    dataset: str | None = None,
) -> Statement:  # fmt: skip
    """Returns the statement of a run.

    ``parameters`` is the number of trained scalar parameters, and ``hashed`` is the hash of the model's ``state_dict``.
    ``dataset`` is the name of the data set for a run without a ledger. Otherwise the ledger names the data set.
    """
    counted = plan.count is not None
    released = [f"the parameters after each of {plan.steps:,} steps, {parameters:,} numbers"]
    norm_bound = f"norms of at most {format_stated_exactly(plan.sensitivity)}"
    if isinstance(plan.settings, DPIS):
        if plan.settings.norm_share is None:
            released.append(f"a sum of norms of gradients with noise before each of {plan.settings.epochs} epochs")
        if plan.settings.adapt is not None and plan.settings.norm_noise is not None:
            least, most = map(format_stated_exactly, plan.settings.dpis_norm_bound_range)
            released.append(
                f"a sum of norms of gradients before each epoch but the first, each norm clipped to {most}, with noise "
                f"whose standard deviation is {format_stated_exactly(plan.settings.norm_noise)} times that"
            )
            norm_bound += (
                f" in the first epoch and then {format_stated_exactly(plan.settings.adapt)} times the released mean "
                f"norm, within [{least}, {most}]"
            )
    if plan.loss is not None:
        released.append(
            f"a sum of losses with noise after each step, each loss clipped to {format_stated_exactly(plan.loss.bound)}"
        )
    if counted:
        released.append(state_noisy_record_count(plan.records))
    return Statement(
        subject,
        plan.charged.epsilon(plan.delta),
        plan.delta,
        plan.charged,
        released=tuple(released),
        public={
            RECORDS: "none: a noisy count was released" if counted else state_public_record_count(plan.records),
            "model": "its form, its initial parameters, its buffers and the loss",
            "settings": f"batches of {format_stated_exactly(plan.batch_size)}, {norm_bound}, the optimizer",
        },
        size=plan.records,
        arithmetic="idealised" if plan.arithmetic == "float" else "idealised gradients",
        seeded=seeded,
        outside=(
            _SUMS[plan.arithmetic],
            _PLACES if padded else _GRADIENTS,
            _OTHERS,
            *([_ONE_BY_ONE] if plan.arithmetic == "one-by-one" else []),
            *([] if processes == 1 else [_RANKS]),
            *([] if failures == 0 else [_FAILED.format(failures)]),
            *([_RESUMED] if resumed and ledger is None else []),
            *([_LOOKED_AT] if isinstance(plan.settings, DPIS) else []),
            AGAIN,
        ),
        ledger=name_ledger_payment(ledger, run),
        parameters=hashed,
        dataset=dataset if ledger is None else ledger.dataset,
    )
