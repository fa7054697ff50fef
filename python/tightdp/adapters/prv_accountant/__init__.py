"""Offers tightdp's bounds under prv_accountant's names. Programs need only change their imports, and prv_accountant
need not be installed.

from tightdp.adapters.prv_accountant import PRVAccountant, PoissonSubsampledGaussianMechanism
from tightdp.adapters.prv_accountant.dpsgd import DPSGDAccountant, find_noise_multiplier
"""

from .accountant import PRVAccountant
from .dpsgd import Accountant
from .privacy_random_variables import (
    ApproximateDPMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    PoissonSubsampledGaussianMechanism,
    PrivacyRandomVariable,
    PureDPMechanism,
)

__all__ = [
    "Accountant",
    "ApproximateDPMechanism",
    "GaussianMechanism",
    "LaplaceMechanism",
    "PRVAccountant",
    "PoissonSubsampledGaussianMechanism",
    "PrivacyRandomVariable",
    "PureDPMechanism",
]
