"""Certified two-sided bounds for differential privacy, and private training charged for what it releases."""

from ._core import __version__
from .accounting.bound import Bound
from .mechanisms import Gaussian, Mechanism, PoissonSampled

__all__ = ["Bound", "Gaussian", "Mechanism", "PoissonSampled", "__version__"]
