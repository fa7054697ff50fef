"""The compiled functions that add noise. Modules that import them make releases, and pyproject.toml lists them."""

from .._core import (
    add_discrete_gaussian,
    add_discrete_laplace,
    add_rounded_normals,
    clipped_sum,
    random_normal,
)

__all__ = ["add_discrete_gaussian", "add_discrete_laplace", "add_rounded_normals", "clipped_sum", "random_normal"]
