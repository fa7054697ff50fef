"""Who takes part in bench/accountants.py: what each is called, and how it answers a case.

To add one, write a function that imports its library and returns the call, and name it in ``CONTENDERS``. A contender
whose library is missing or does not import is left out, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Case:
    """T-fold Poisson-subsampled Gaussian; ``exact`` is epsilon(delta), the larger of its two directions."""

    noise_multiplier: float
    sampling_probability: float
    steps: int
    delta: float
    exact: float

    def __str__(self) -> str:
        q = f"{self.sampling_probability:.4g}"
        return f"sigma {self.noise_multiplier:g}, q {q}, T {self.steps}, delta {self.delta:.0e}"


class Answer(NamedTuple):
    """Bounds on epsilon; ``lower`` is -inf where a library gives none."""

    lower: float
    upper: float


Call = Callable[[Case], Answer]


@dataclass(frozen=True)
class Contender:
    name: str
    make: Callable[[], Call]
    ours: bool = False
    equal: bool = False
    """Whether it was asked for the same eps_error, so that its time may be compared."""


EPS_ERROR, DELTA_ERROR = 0.01, 1e-10


def _tightdp(engine: str) -> Callable[[], Call]:
    def make() -> Call:
        import tightdp as dp
        from tightdp import _core

        _core.grid_keep(0)  # every question as if it were the first

        def call(case: Case) -> Answer:
            step = dp.PoissonSampled(dp.Gaussian(case.noise_multiplier), case.sampling_probability)
            bound = (step * case.steps).epsilon(case.delta, engine=engine, eps_error=EPS_ERROR, delta_error=DELTA_ERROR)
            return Answer(bound.lower, bound.upper)

        return call

    return make


def _prv_accountant() -> Call:
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    def call(case: Case) -> Answer:
        prv = PoissonSubsampledGaussianMechanism(
            noise_multiplier=case.noise_multiplier, sampling_probability=case.sampling_probability
        )
        accountant = PRVAccountant(
            prvs=[prv], max_self_compositions=[case.steps], eps_error=EPS_ERROR, delta_error=DELTA_ERROR
        )
        lower, _, upper = accountant.compute_epsilon(delta=case.delta, num_self_compositions=[case.steps])
        return Answer(lower, upper)

    return call


def _opacus() -> Call:
    from opacus.accountants import PRVAccountant

    def call(case: Case) -> Answer:
        accountant = PRVAccountant()
        accountant.history = [(case.noise_multiplier, case.sampling_probability, case.steps)]
        upper = accountant.get_epsilon(delta=case.delta, eps_error=EPS_ERROR, delta_error=DELTA_ERROR)
        return Answer(-math.inf, upper)

    return call


def _dp_accounting() -> Call:
    from dp_accounting.pld import privacy_loss_distribution as pld

    def call(case: Case) -> Answer:
        step = pld.from_gaussian_mechanism(
            case.noise_multiplier,
            sampling_prob=case.sampling_probability,
            value_discretization_interval=1e-4,
            use_connect_dots=True,
        )
        return Answer(-math.inf, step.self_compose(case.steps).get_epsilon_for_delta(case.delta))

    return call


def _opacus_rdp() -> Call:
    from opacus.accountants import RDPAccountant

    def call(case: Case) -> Answer:
        accountant = RDPAccountant()
        accountant.history = [(case.noise_multiplier, case.sampling_probability, case.steps)]
        return Answer(-math.inf, accountant.get_epsilon(delta=case.delta))

    return call


def _dp_accounting_rdp() -> Call:
    import dp_accounting
    from dp_accounting import rdp

    def call(case: Case) -> Answer:
        step = dp_accounting.GaussianDpEvent(case.noise_multiplier)
        accountant = rdp.RdpAccountant()
        accountant.compose(dp_accounting.PoissonSampledDpEvent(case.sampling_probability, step), case.steps)
        return Answer(-math.inf, accountant.get_epsilon(case.delta))

    return call


def _autodp() -> Call:
    from autodp.mechanism_zoo import GaussianMechanism
    from autodp.transformer_zoo import AmplificationBySampling, Composition

    def call(case: Case) -> Answer:
        step = GaussianMechanism(case.noise_multiplier)
        if case.sampling_probability < 1:
            step = AmplificationBySampling(PoissonSampling=True)(
                step, case.sampling_probability, improved_bound_flag=True
            )
        return Answer(-math.inf, float(Composition()([step], [case.steps]).get_approxDP(case.delta)))

    return call


def _dp_accelerator() -> Call:
    from dp_accelerator import DPSGDAccountant, compute_epsilon_batch

    orders = [float(order) for order in DPSGDAccountant(1.0, 1, 2).orders]

    def call(case: Case) -> Answer:
        (upper,) = compute_epsilon_batch(
            case.sampling_probability, case.noise_multiplier, [case.steps], orders, case.delta
        )
        return Answer(-math.inf, upper)

    return call


CONTENDERS = [
    Contender("tightdp auto", _tightdp("auto"), ours=True),
    Contender("tightdp grid", _tightdp("grid"), ours=True),
    Contender("tightdp prv", _tightdp("prv"), ours=True, equal=True),
    Contender("prv-accountant", _prv_accountant, equal=True),
    Contender("opacus PRV", _opacus, equal=True),
    Contender("dp-accounting 1e-4", _dp_accounting),
    Contender("opacus RDP", _opacus_rdp),
    Contender("dp-accounting RDP", _dp_accounting_rdp),
    Contender("autodp RDP", _autodp),
    Contender("dp-accelerator RDP", _dp_accelerator),
]
"""Not here: opake (does not import on Python 3.11), riskcal and jax-privacy (they ask dp-accounting), opendp (it has no
sampled Gaussian), PLD_accounting (random allocation only)."""
