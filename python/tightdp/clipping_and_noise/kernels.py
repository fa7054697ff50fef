"""The compiled functions that add noise. The modules that import them make releases, and pyproject.toml lists these
modules."""

from .._core import add_discrete_gaussian, add_discrete_laplace, add_rounded_normals, clipped_sum, random_normal

__all__ = ["add_discrete_gaussian", "add_discrete_laplace", "add_rounded_normals", "clipped_sum", "random_normal"]
