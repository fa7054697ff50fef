"""Finds the headers, libraries and the CMake package of tightdp, for projects that build on them."""

from __future__ import annotations

import sys
from pathlib import Path

from .._core import __file__ as core_file

_LIBRARIES = {"win32": "tightdp_c.dll", "darwin": "libtightdp_c.0.dylib"}


def get_include() -> str:
    """Returns the directory to put on the include path: ``#include <tightdp/accounting/gaussian.hpp>``.

    >>> dp.get_include().endswith("include")
    True
    """
    return str(Path(core_file).parent / "include")


def get_cmake_dir() -> str:
    """Returns the directory for ``find_package(tightdp CONFIG)``.

    The CMake package has three targets. ``tightdp::tightdp`` is the C++ library. ``tightdp::headers`` are the headers
    that need no library. ``tightdp::c`` is the shared library of the C interface, ``<tightdp/tightdp.h>``.

    >>> dp.get_cmake_dir().endswith("cmake")
    True
    """
    return str(Path(core_file).parent / "cmake")


def get_library() -> str:
    """Returns the path of the shared library of the C interface, ``<tightdp/tightdp.h>``, for other languages to load.

    The library does not need Python. The folder ``pkgconfig`` beside it holds the files for pkg-config.

    >>> "tightdp_c" in dp.get_library()
    True
    """
    return str(Path(core_file).parent / "lib" / _LIBRARIES.get(sys.platform, "libtightdp_c.so.0"))
