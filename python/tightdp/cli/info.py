"""tightdp info: version, instruction set in use, CUDA, engines."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
from typing import Any

import numpy

from .. import __version__, _core
from ..accounting.engines.choice import NAMES


def add_parser(commands: Any) -> None:
    """Adds ``info`` to the subcommands."""
    p = commands.add_parser("info", description=__doc__)
    p.add_argument("--json", action="store_true", help="print JSON")
    p.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints what is found."""
    found = {
        "version": __version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "machine": platform.machine(),
        "instruction_set": _core.isa(),
        "cores": os.cpu_count(),
        "cuda_devices": cuda_devices(),
        "engines": list(NAMES),
    }
    if arguments.json:
        print(json.dumps(found))
        return 0
    devices = found["cuda_devices"]
    found["cuda_devices"] = devices or "none found"
    found["engines"] = ", ".join(NAMES)
    for name, value in found.items():
        print(f"{name.replace('_', ' '):<16}{value}")
    return 0


def cuda_devices() -> int:
    """How many devices the CUDA driver reports; 0 without a driver."""
    for library in ("libcuda.so.1", "nvcuda.dll"):
        try:
            driver = ctypes.CDLL(library)
        except OSError:
            continue
        count = ctypes.c_int(0)
        if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0:
            return count.value
    return 0
