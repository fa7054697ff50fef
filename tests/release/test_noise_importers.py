"""Noise is added to data in the gate, in the raw kernels, and in one module for each other library: by their names,
which the import contracts of pyproject.toml cannot tell."""

import ast
from pathlib import Path

import pytest

import tightdp

PACKAGE = Path(tightdp.__file__).parent
COMPILED = {"add_rounded_normals", "add_discrete_gaussian", "add_discrete_laplace", "clipped_sum", "random_normal"}
"""Of ``_core``: the one module that names them is protected."""
FOR_USERS = {"clip_and_noise", "exact_release", "rounded_gaussian", "discrete_gaussian", "discrete_laplace"}


def added(source):
    """The noise that a module reaches for by itself: of the compiled core, of the functions for users, and floats."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner != "GridLaw":  # the distribution of a privacy loss, which draws nothing
                found |= {node.attr} & (COMPILED if owner == "_core" else FOR_USERS | {"normal"})
        elif isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            found |= names & ((COMPILED if (node.module or "").endswith("_core") else set()) | FOR_USERS)
    return found


@pytest.mark.parametrize(
    "source",
    [
        "_core.add_rounded_normals(stream, 1.0, counts)",
        "from .._core import add_discrete_laplace",
        "from .release.exact_noise import rounded_gaussian",
        "import tightdp as dp\nfound = dp.clip_and_noise(x, 1, 1)",
        "counts + source.normal(3)",
    ],
)
def test_noise_is_found(source):
    assert added(source)


def test_no_other_module_adds_noise():
    own = {"__init__.py", "clipping_and_noise/kernels.py"}
    found = {path.relative_to(PACKAGE).as_posix(): added(path.read_text()) for path in PACKAGE.rglob("*.py")}
    assert {name for name, noise in found.items() if noise} == own, found
