"""The contenders of bench/accountants.py: their names, and the functions by which they answer a case.

To add a contender, write a function that imports its library and answers a case, and list the function in
``CONTENDERS``. A contender whose library is missing or cannot be imported is left out, and the reason is printed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import tightdp as dp


@dataclass(frozen=True)
class Case:
    """A composition of Poisson-sampled Gaussians. ``exact`` is epsilon(delta) in the direction where it is larger."""

    noise_multiplier: float
    sampling_probability: float
    steps: int
    delta: float
    exact: float

    def __str__(self) -> str:
        q = f"{self.sampling_probability:.4g}"
        return f"sigma {self.noise_multiplier:g}, q {q}, T {self.steps}, delta {self.delta:.0e}"


class Answer(NamedTuple):
    """Bounds on epsilon. ``lower`` is -inf if a library gives no lower bound."""

    lower: float
    upper: float


Call = Callable[[Case], Answer]
EPS_ERROR, DELTA_ERROR = 0.01, 1e-10


@dataclass(frozen=True)
class Contender:
    name: str
    call: Call
    ours: bool = False
    equal: bool = False
    """Whether the contender got the eps_error ``EPS_ERROR``, so that its time can be compared with others' times."""


def _tightdp(case: Case, engine: str) -> Answer:
    step = dp.PoissonSampled(dp.Gaussian(case.noise_multiplier), case.sampling_probability)
    bound = (step * case.steps).epsilon(case.delta, engine=engine, eps_error=EPS_ERROR, delta_error=DELTA_ERROR)
    return Answer(bound.lower, bound.upper)


def _prv_accountant(case: Case) -> Answer:
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    prv = PoissonSubsampledGaussianMechanism(
        noise_multiplier=case.noise_multiplier, sampling_probability=case.sampling_probability
    )
    accountant = PRVAccountant(
        prvs=[prv], max_self_compositions=[case.steps], eps_error=EPS_ERROR, delta_error=DELTA_ERROR
    )
    lower, _, upper = accountant.compute_epsilon(delta=case.delta, num_self_compositions=[case.steps])
    return Answer(lower, upper)


def _opacus(case: Case, kind: str, **options: Any) -> Answer:
    from opacus import accountants

    accountant = getattr(accountants, kind)()
    accountant.history = [(case.noise_multiplier, case.sampling_probability, case.steps)]
    return Answer(-math.inf, accountant.get_epsilon(delta=case.delta, **options))


def _dp_accounting(case: Case) -> Answer:
    from dp_accounting.pld import privacy_loss_distribution as pld

    step = pld.from_gaussian_mechanism(
        case.noise_multiplier,
        sampling_prob=case.sampling_probability,
        value_discretization_interval=1e-4,
        use_connect_dots=True,
    )
    return Answer(-math.inf, step.self_compose(case.steps).get_epsilon_for_delta(case.delta))


def _dp_accounting_rdp(case: Case) -> Answer:
    import dp_accounting
    from dp_accounting import rdp

    step = dp_accounting.GaussianDpEvent(case.noise_multiplier)
    accountant = rdp.RdpAccountant()
    accountant.compose(dp_accounting.PoissonSampledDpEvent(case.sampling_probability, step), case.steps)
    return Answer(-math.inf, accountant.get_epsilon(case.delta))


def _autodp(case: Case) -> Answer:
    from autodp.mechanism_zoo import GaussianMechanism
    from autodp.transformer_zoo import AmplificationBySampling, Composition

    step, q = GaussianMechanism(case.noise_multiplier), case.sampling_probability
    if q < 1:
        step = AmplificationBySampling(PoissonSampling=True)(step, q, improved_bound_flag=True)
    return Answer(-math.inf, float(Composition()([step], [case.steps]).get_approxDP(case.delta)))


@cache
def _orders() -> list[float]:
    from dp_accelerator import DPSGDAccountant

    return [float(order) for order in DPSGDAccountant(1.0, 1, 2).orders]


def _dp_accelerator(case: Case) -> Answer:
    from dp_accelerator import compute_epsilon_batch

    sigma, q = case.noise_multiplier, case.sampling_probability
    (upper,) = compute_epsilon_batch(q, sigma, [case.steps], _orders(), case.delta)
    return Answer(-math.inf, upper)


CONTENDERS = [
    Contender("tightdp auto", partial(_tightdp, engine="auto"), ours=True),
    Contender("tightdp grid", partial(_tightdp, engine="grid"), ours=True),
    Contender("tightdp prv", partial(_tightdp, engine="prv"), ours=True, equal=True),
    Contender("prv-accountant", _prv_accountant, equal=True),
    Contender(
        "opacus PRV",
        partial(_opacus, kind="PRVAccountant", eps_error=EPS_ERROR, delta_error=DELTA_ERROR),
        equal=True,
    ),
    Contender("dp-accounting 1e-4", _dp_accounting),
    Contender("opacus RDP", partial(_opacus, kind="RDPAccountant")),
    Contender("dp-accounting RDP", _dp_accounting_rdp),
    Contender("autodp RDP", _autodp),
    Contender("dp-accelerator RDP", _dp_accelerator),
]
"""All contenders. Some libraries are left out: opake cannot be imported on Python 3.11, riskcal and jax-privacy call
dp-accounting, opendp has no sampled Gaussian, and PLD_accounting has random allocation only."""
