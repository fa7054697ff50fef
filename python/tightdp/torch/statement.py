"""What the bound of a run covers, and what it rests on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from ..release.noise import Philox, RandomSource
from .account import Account
from .plan import Plan


@dataclass(frozen=True)
class Statement:
    """Sentences, by subject; ``str``, ``to_dict`` and ``to_json``."""

    guarantee: str
    relation: str
    public: str
    mechanism: str
    arithmetic: str
    randomness: str

    def to_dict(self) -> dict[str, str]:
        return asdict(self)

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    def __str__(self) -> str:
        return "\n".join(f"{subject}: {text}" for subject, text in self.to_dict().items())


_GRADIENTS = (
    "the gradient of a record comes out of batched products of floats, whose last bits may depend on the other records "
    "of its physical batch; the proof takes it for a function of the record"
)
_ARITHMETIC = {
    "exact": "sums are of integers and noise is sampled exactly: both are what is charged, to the last bit. "
    f"Idealised: {_GRADIENTS}",
    "float": "noise is sampled exactly and rounded to a grid with the sum. Idealised: norms and sums are of floats, "
    f"so one record may move a sum by more than the norm bound, in its last bits and in others'; and {_GRADIENTS}. "
    "That the model treats records apart was checked on the first batch, up to rounding",
}


def statement(plan: Plan, account: Account, source: RandomSource) -> Statement:
    bound = plan.charged.epsilon(plan.delta)
    known = (
        "public, as the caller says" if plan.count is None else f"released by {plan.count!r}; the true one is private"
    )
    seeded = "seeded: repeatable, and NOT a private release, for whoever knows the seed can subtract the noise"
    secure = "batches and noise are ChaCha20's, keyed by the operating system"
    return Statement(
        guarantee=f"({bound.upper!r}, {plan.delta!r})-DP for all {plan.steps} steps; {account.steps} were taken",
        relation="data sets that differ in one record, which is added or removed",
        public=f"the number of records, {plan.records}, {known}; the model, the settings and the order of steps",
        mechanism=f"{plan.charged!r}. Each step releases a sum of gradients of norm at most {plan.sensitivity!r}, with "
        "one normal on each coordinate, whatever the batch holds",
        arithmetic=_ARITHMETIC[plan.arithmetic],
        randomness=seeded if isinstance(source, Philox) else secure,
    )
