"""The places of headers, libraries and the CMake package, for projects that build on them."""

from __future__ import annotations

import sys
from pathlib import Path

from ._core import __file__ as core_file

_LIBRARIES = {"win32": "tightdp_c.dll", "darwin": "libtightdp_c.0.dylib"}


def get_include() -> str:
    """Returns the directory to put on the include path: ``#include <tightdp/accounting/gaussian.hpp>``.

    >>> dp.get_include().endswith("include")
    True
    """
    return str(Path(core_file).parent / "include")


def get_cmake_dir() -> str:
    """Returns the directory for ``find_package(tightdp CONFIG)``.

    The package has ``tightdp::tightdp``, the C++ library, ``tightdp::headers``, the headers that need no library, and
    ``tightdp::c``, the shared library of ``<tightdp/tightdp.h>``.

    >>> dp.get_cmake_dir().endswith("cmake")
    True
    """
    return str(Path(core_file).parent / "cmake")


def get_library() -> str:
    """Returns the shared library of the C interface, ``<tightdp/tightdp.h>``, for other languages to load.

    It needs no Python. The folder ``pkgconfig`` beside it holds the files of pkg-config.

    >>> "tightdp_c" in dp.get_library()
    True
    """
    return str(Path(core_file).parent / "lib" / _LIBRARIES.get(sys.platform, "libtightdp_c.so.0"))
