"""tightdp info: version, instruction set in use, CUDA, engines."""

from __future__ import annotations

import argparse
import json
import os
import platform

import numpy

from .. import cuda
from .._core import __version__, dense, isa
from ..accounting.engines.auto import NAMES


def add_command_arguments(p: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    p.add_argument("--json", action="store_true", help="print JSON")


def run_command(arguments: argparse.Namespace) -> int:
    """Prints the version, and the devices, instruction set and engines that are available."""
    found = {
        "version": __version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "machine": platform.machine(),
        "instruction_set": isa(),
        "exact_products": dense.serving_way(),
        "cores": os.cpu_count(),
        "cuda": cuda.status(),
        "cuda_devices": len(cuda.devices()),
        "engines": list(NAMES),
    }
    if arguments.json:
        print(json.dumps(found))
        return 0
    del found["cuda_devices"]
    found["engines"] = ", ".join(NAMES)
    for name, value in found.items():
        print(f"{name.replace('_', ' '):<16}{value}")
    return 0
