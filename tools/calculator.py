"""Compiles the accountant to WebAssembly, for the calculator on the site's first page.

    python tools/calculator.py FOLDER

Needs emscripten (Debian's package of that name). Writes FOLDER/accountant.js, which includes the WebAssembly, so that
the page works from a disk as well. Object files are kept in build/calculator, and compiled again if a source file is
younger. docs/theory/browser.md says why the bounds are certified in a browser too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OBJECTS = ROOT / "build" / "calculator"
SOURCES = ("capi/*.cpp", "compatibility/browser_system.cpp", "src/accounting/*.cpp", "src/contour/**/*.cpp",
           "src/fft/*.cpp", "src/grid/*.cpp", "src/loss_distributions/*.cpp", "src/runtime/*.cpp")  # fmt: skip
"""Patterns of the source files in cpp/: the C interface and the engines that it calls."""
FUNCTIONS = "epsilon", "delta", "noise_multiplier", "last_error", "version"
"""Functions of cpp/include/tightdp/tightdp.h that the page calls."""
COMPILED = ("-std=c++20", "-O2", "-fexceptions", "-I", "cpp/include", "-I", "cpp/src",
            "-include", "cpp/compatibility/older_libcxx.hpp", "-DTIGHTDP_C_BUILDS", "-ffp-contract=off")  # fmt: skip
"""Compiler flags for all sources. Products and sums may not be contracted to fma, because WebAssembly has no
deterministic fma instruction, and fma in software is slow."""
VECTORS = "-O3", "-msimd128", "-DTIGHTDP_ISA=baseline", "-DTIGHTDP_ISA_baseline=1", "-Wno-psabi"
LINKED = ("-O2", "-fexceptions", "-sMODULARIZE", "-sEXPORT_NAME=tightdp", "-sSINGLE_FILE", "-sALLOW_MEMORY_GROWTH",
          "-sENVIRONMENT=web,node", "-sEXPORTED_RUNTIME_METHODS=UTF8ToString",
          "-sEXPORTED_FUNCTIONS=_malloc,_free," + ",".join(f"_tightdp_{name}" for name in FUNCTIONS))  # fmt: skip

DEBIAN_MODULES = "/usr/share/nodejs"
"""Folder of acorn, which emscripten's linker needs. Only Debian's own node finds it there without being told."""


def list_sources() -> list[Path]:
    """Returns the C++ files that the calculator needs."""
    return sorted({path for pattern in SOURCES for path in (ROOT / "cpp").glob(pattern)})


def compile_source(source: Path) -> Path:
    """Compiles one file, unless its object file is younger than every header and source."""
    name = str(source.relative_to(ROOT / "cpp")).replace("/", "-")
    made = OBJECTS / f"{name}.o"
    if made.exists() and made.stat().st_mtime > youngest_source():
        return made
    flags = VECTORS if source.name.endswith(".simd.cpp") else ()
    (version,) = re.findall(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    defined = f'-DTIGHTDP_VERSION="{version}"'
    subprocess.run(["em++", *COMPILED, *flags, defined, "-c", source, "-o", made], cwd=ROOT, check=True)
    return made


def youngest_source() -> float:
    """Returns the time at which a C++ file or this file changed last."""
    return max(path.stat().st_mtime for path in [Path(__file__), *(ROOT / "cpp").rglob("*.[ch]pp")])


def build(folder: Path) -> None:
    """Compiles and links everything into ``folder``."""
    OBJECTS.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pending = [pool.submit(compile_source, source) for source in list_sources()]
    objects = [each.result() for each in pending]
    linked = OBJECTS / "accountant.js"
    environment = {"NODE_PATH": DEBIAN_MODULES, **os.environ}
    subprocess.run(["em++", *LINKED, *objects, "-o", linked], cwd=ROOT, env=environment, check=True)
    shutil.copy(linked, folder)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
