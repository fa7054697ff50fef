"""Accountants of DP-SGD (many steps of one Poisson-sampled Gaussian), with the interface of prv_accountant."""

from __future__ import annotations

from ..._support import _check
from ...accounting.questions.calibration import noise_multiplier as least_noise_multiplier
from .accountant import PRVAccountant, Triple
from .privacy_random_variables import PoissonSubsampledGaussianMechanism


class DPSGDAccountant(PRVAccountant):
    """An accountant of up to ``max_steps`` steps of DP-SGD, or of other noisy sums over Poisson samples."""

    def __init__(
        self,
        noise_multiplier: float,
        sampling_probability: float,
        max_steps: int,
        eps_error: float = 0.1,
        delta_error: float = 1e-9,
    ) -> None:
        step = PoissonSubsampledGaussianMechanism(sampling_probability, noise_multiplier)
        super().__init__(step, eps_error, delta_error, max_steps)

    def compute_epsilon(self, delta: float, num_steps: int) -> Triple:  # type: ignore[override]
        """Returns bounds on epsilon at ``delta`` in (0, 1) after ``num_steps`` steps."""
        return super().compute_epsilon(delta, _check.check_count_argument("num_steps", num_steps, least=0))


class Accountant:
    """An accountant of DP-SGD at one ``delta``, with the name and interface of older versions.

    Parameters
    ----------
    noise_multiplier : noise multiplier of each step, > 0.
    sampling_probability : sampling probability of each step, in [0, 1].
    delta : in (0, 1).
    max_compositions : the largest number of steps, an integer >= 1.
    eps_error, mesh_size, verbose : accepted, without effect on the bounds.

    Raises ValueError for a number out of its range.

    >>> from tightdp.adapters.prv_accountant import Accountant
    >>> low, estimate, high = Accountant(1.0, 0.01, 1e-5, max_compositions=1000).compute_epsilon(1000)
    >>> f"{low:.5f}", f"{high:.5f}"
    ('1.82824', '1.82824')
    """

    def __init__(
        self,
        noise_multiplier: float,
        sampling_probability: float,
        delta: float,
        max_compositions: int,
        eps_error: float | None = None,
        mesh_size: float | None = None,
        verbose: bool = False,
    ) -> None:
        self.delta = _check.open_unit("delta", delta)
        error = 0.1 if eps_error is None else eps_error
        max_compositions = _check.check_count_argument("max_compositions", max_compositions)
        self.accountant = DPSGDAccountant(noise_multiplier, sampling_probability, max_compositions, error)

    def compute_epsilon(self, num_compositions: int) -> Triple:
        """Returns bounds on epsilon after ``num_compositions`` steps."""
        num_compositions = _check.check_count_argument("num_compositions", num_compositions, least=0)
        return self.accountant.compute_epsilon(self.delta, num_compositions)


def find_noise_multiplier(
    sampling_probability: float,
    num_steps: int,
    target_epsilon: float,
    target_delta: float,
    eps_error: float = 0.1,
    mu_max: float = 100.0,
) -> float:
    """Returns the smallest noise multiplier whose upper bound on epsilon is at most ``target_epsilon``.

    ``eps_error`` has no effect. Raises RuntimeError if the noise multiplier would be above ``mu_max``.
    """
    epsilon = _check.nonnegative("target_epsilon", target_epsilon)
    delta = _check.open_unit("target_delta", target_delta)
    steps = _check.check_count_argument("num_steps", num_steps)
    _check.positive("eps_error", eps_error)
    _check.positive("mu_max", mu_max)
    found = least_noise_multiplier(epsilon, delta, sampling_probability, steps)
    if found > mu_max:
        raise RuntimeError(f"the target needs a noise multiplier of {found!r}, which is above mu_max={mu_max!r}")
    return found
