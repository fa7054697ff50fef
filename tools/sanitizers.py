"""Runs the kernels' tests and the fuzzer with the address and undefined-behaviour sanitizers (GCC or Clang).

    python tools/sanitizers.py [--minutes 10] [--seed 1]

Builds into build/sanitized, which takes six minutes on two cores the first time. The tests run in an order that depends
on the seed, and stop when the time is up.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "build" / "sanitized"
FLAGS = "-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=all -fno-omit-frame-pointer -g1"
LIBRARIES = ("libasan.so", "libubsan.so", "libstdc++.so")
"""Libraries that are loaded before all others. The interpreter does not load them itself, and they must see exceptions
from the start."""
KERNELS = ("allocation", "batch_contour", "clipping", "clipping_properties", "contour", "device_clipping",
           "device_kernels", "exact", "fft", "fuzz", "grid", "grid_box", "grid_lattice", "grid_store", "prv",
           "random", "selection", "simd_math", "special")  # fmt: skip
"""Names of the test files, without the folder and without "test_"."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    end = time.monotonic() + 60 * arguments.minutes
    compiler = os.environ.get("CXX", "c++")
    found = [subprocess.check_output([compiler, f"-print-file-name={name}"], text=True).strip() for name in LIBRARIES]
    if not all(Path(library).is_absolute() for library in found):
        print(f"{compiler} has no sanitizers: nothing to do")
        return 0
    build()
    environment = {
        "LD_PRELOAD": " ".join(found),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",  # the interpreter itself leaks memory
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONPATH": os.pathsep.join([str(BUILT), str(ROOT / "tools")]),  # tools/ has the plugin hunt_end
        "TIGHTDP_HUNT": str(arguments.seed),
        "TIGHTDP_HUNT_SECONDS": str(max(60, round(end - time.monotonic()))),
    }
    tests = [next(ROOT.glob(f"tests/**/test_{name}.py")) for name in KERNELS]
    options = ["-p", "hunt_end"]
    options += ["-q", "-x", "-n", "auto", "-m", "hunt or not hunt", f"--hypothesis-seed={arguments.seed}"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}).returncode


def build() -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", ".", "--no-deps"]
    command += ["--upgrade", "--target", str(BUILT), f"--config-settings=build-dir={BUILT}-objects"]
    command += [
        "--config-settings=cmake.define.TIGHTDP_SIMD_OPTIMIZATION=-O1",
        "--config-settings=cmake.define.TIGHTDP_BUILD_TESTS=ON",
    ]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "CXXFLAGS": FLAGS})


if __name__ == "__main__":
    sys.exit(main())
