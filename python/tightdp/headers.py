"""Where the C++ headers, library and CMake package are, for projects that build on them."""

from __future__ import annotations

from pathlib import Path

from . import _core


def get_include() -> str:
    """The directory to put on the include path: ``#include <tightdp/accounting/gaussian.hpp>``."""
    return str(Path(_core.__file__).parent / "include")


def get_cmake_dir() -> str:
    """The directory for ``find_package(tightdp CONFIG)``, which gives ``tightdp::tightdp``, the library, and
    ``tightdp::headers``, the headers that need no library."""
    return str(Path(_core.__file__).parent / "cmake")
