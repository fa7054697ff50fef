"""Certified two-sided bounds for differential privacy, and private training charged for what it releases."""

from ._core import __version__
from .accounting.bound import Bound
from .accounting.composition import Composition
from .mechanisms import (
    ZCDP,
    ApproximateDP,
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    Mechanism,
    PoissonSampled,
    PureDP,
    RandomAllocation,
    RandomizedResponse,
)

__all__ = [
    "ZCDP",
    "ApproximateDP",
    "Bound",
    "BoundedRange",
    "Composition",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "FixedSizeSampled",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "PoissonSampled",
    "PureDP",
    "RandomAllocation",
    "RandomizedResponse",
    "__version__",
]
