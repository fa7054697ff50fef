"""Where the C++ headers and their CMake package are, for projects that build on them."""

from __future__ import annotations

from pathlib import Path

from . import _core


def get_include() -> str:
    """The directory to put on the include path: ``#include <tightdp/contour/aliasing.hpp>``."""
    return str(Path(_core.__file__).parent / "include")


def get_cmake_dir() -> str:
    """The directory for ``find_package(tightdp CONFIG)``, which gives the target ``tightdp::headers``."""
    return str(Path(_core.__file__).parent / "cmake")
