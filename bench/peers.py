"""Bounds of other libraries for sampled Gaussians, for stepping.py and schedules.py."""

from __future__ import annotations

from collections.abc import Mapping

from contenders import DELTA_ERROR, EPS_ERROR

Runs = Mapping[tuple[float, float], int]
"""Number of steps of each pair of a noise multiplier and a sampling probability."""


def opacus(runs: Runs, delta: float) -> float:
    """Returns the upper bound of Opacus' PRV accountant, with the error EPS_ERROR."""
    from opacus.accountants import PRVAccountant

    account = PRVAccountant()
    account.history = [(sigma, q, count) for (sigma, q), count in runs.items()]
    return float(account.get_epsilon(delta=delta, eps_error=EPS_ERROR, delta_error=DELTA_ERROR))


class PLD:
    """dp-accounting's privacy loss distribution, composed step by step like an account."""

    def __init__(self, mesh: float) -> None:
        self._mesh, self._composed = mesh, None

    def compose(self, sigma: float, q: float, count: int = 1) -> None:
        from dp_accounting.pld import privacy_loss_distribution as pld

        law = pld.from_gaussian_mechanism(sigma, sampling_prob=q, value_discretization_interval=self._mesh)
        law = law.self_compose(count) if count > 1 else law
        self._composed = law if self._composed is None else self._composed.compose(law)

    def epsilon(self, delta: float) -> float:
        return float(self._composed.get_epsilon_for_delta(delta))


def pld(runs: Runs, delta: float, mesh: float) -> float:
    """Returns an upper bound of dp-accounting. Each step may add an error of a width of the mesh."""
    account = PLD(mesh)
    for (sigma, q), count in runs.items():
        account.compose(sigma, q, count)
    return account.epsilon(delta)
