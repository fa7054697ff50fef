"""Opacus (https://opacus.ai) with certified accounts, exact sums and exactly sampled noise.

Importing this module registers the accountant as "tightdp". ``opacus.PrivacyEngine(accountant="tightdp")`` and
``get_noise_multiplier(..., accountant="tightdp")`` then use it. The ``PrivacyEngine`` of this module also uses
tightdp's code for clipping, sums and noise. The module is made for Opacus 1.6 and torch 2.13.

The charge covers the optimiser. Given the per-example gradients, the optimiser's output has the distribution of the
Gaussian mechanism to the last bit. The account idealises the gradients themselves. PyTorch computes gradients in
batches of floats, so the last bits of one example's gradient may depend on the other examples in its batch. The proof
assumes that each gradient is a function of its example alone.
"""

from .accountant import Accountant
from .engine import PrivacyEngine
from .optimizer import (
    DistributedDPOptimizer,
    DPOptimizer,
    DPPerLayerOptimizer,
    SimpleDistributedPerLayerOptimizer,
    optimizer_class,
)
from .sampler import PoissonSampler

__all__ = [
    "Accountant",
    "DPOptimizer",
    "DPPerLayerOptimizer",
    "DistributedDPOptimizer",
    "PoissonSampler",
    "PrivacyEngine",
    "SimpleDistributedPerLayerOptimizer",
    "optimizer_class",
]
