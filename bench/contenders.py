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


CONTENDERS = [
    Contender("tightdp prv", _tightdp("prv"), ours=True, equal=True),
    Contender("tightdp auto", _tightdp("auto"), ours=True),
    Contender("prv-accountant", _prv_accountant, equal=True),
    Contender("opacus PRV", _opacus, equal=True),
    Contender("dp-accounting 1e-4", _dp_accounting),
]
