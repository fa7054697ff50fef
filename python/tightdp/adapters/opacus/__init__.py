"""Opacus (https://opacus.ai) with certified accounts, exact sums and rounded normals.

Importing this module registers the accountant as "tightdp": ``opacus.PrivacyEngine(accountant="tightdp")`` and
``get_noise_multiplier(..., accountant="tightdp")`` then use it. Our ``PrivacyEngine`` also clips, adds up and draws
noise by our kernels. It is made for Opacus 1.6 and torch 2.13.

The charge covers the optimiser: given the per-example gradients, its output is that of the Gaussian mechanism to the
last bit. The gradients themselves are idealised. PyTorch computes them in batches of floats, so the last bits of one
example's gradient may depend on which others are in its batch; the proof assumes that each is a function of its
example.
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
