"""Set-up and jobs for a fresh clone: python3 dev.py demo | test | hunt | lint | tidy | docs | cuda.

Needs Python >= 3.10 and a C++20 compiler. Everything goes into .venv and build/ beside this file; the environment
variable TIGHTDP_VENV names another place for the environment.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = Path(os.environ.get("TIGHTDP_VENV", ROOT / ".venv"))
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
TESTED = (f".[{os.environ.get('TIGHTDP_EXTRAS', 'test')}]", "-Ccmake.define.TIGHTDP_BUILD_TESTS=ON")
"""What pip installs for the tests; the C++ tests and the module tightdp._testing are built with the package."""


def run(*command: str | Path, **environment: str) -> None:
    """Runs a command here and stops with its exit code if it fails."""
    print("+", *command, flush=True)
    code = subprocess.run([str(part) for part in command], cwd=ROOT, env={**os.environ, **environment}).returncode
    if code:
        sys.exit(code)


def pip(*arguments: str) -> None:
    """pip in an environment that is made on first use."""
    if not (BIN / "python").exists() and not (BIN / "python.exe").exists():
        print(f"+ venv {VENV}", flush=True)
        venv.create(VENV, with_pip=True)
    run(BIN / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)


def demo() -> None:
    """A certified epsilon, and a private model on real data that scikit-learn ships."""
    pip("install", ".[train]")
    run(BIN / "tightdp", "epsilon", "--noise-multiplier", "1.1", "--sampling-probability", "0.00427",
        "--steps", "14000", "--delta", "1e-5")  # fmt: skip
    run(BIN / "python", "examples/digits.py")


def test() -> None:
    """Every test that this machine can run, the same each time."""
    pip("install", *TESTED)
    run(BIN / "python", "-m", "pytest", "-q", "-n", "auto", "--dist", "loadgroup", PYTHONHASHSEED="0")


def hunt(*options: str) -> None:
    """Tests that draw anew until the time is up: hunt [--minutes 30] [--seed N]."""
    pip("install", *TESTED)
    run(BIN / "python", "tools/hunt.py", *options)


def lint() -> None:
    """Style, types, and which module may import which."""
    pip("install", "ruff", "mypy", "import-linter>=2.7", "numpy")
    run(BIN / "ruff", "check", ".")
    run(BIN / "ruff", "format", "--check", ".")
    run(BIN / "mypy")
    run(BIN / "lint-imports", "--no-cache", PYTHONPATH="python")


def tidy() -> None:
    """clang-tidy over the C++ sources of the host (minutes)."""
    pip("install", "clang-tidy", "cmake", "ninja")
    run(BIN / "cmake", "--preset", "release", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={BIN / 'ninja'}")
    run(BIN / "python", BIN / "run-clang-tidy.py", "-quiet", "-p", "build/release",
        "-clang-tidy-binary", BIN / "clang-tidy")  # fmt: skip


def docs() -> None:
    """Builds the site into build/docs; a warning is an error."""
    pip("install", ".[docs]")
    run(BIN / "python", "-m", "sphinx", "-q", "-E", "--fail-on-warning", "--keep-going", "docs", "build/docs")


def cuda() -> None:
    """Compiles the CUDA module for every architecture; needs nvcc, and no device."""
    with tempfile.TemporaryDirectory() as wheels:
        pip("wheel", ".", "--no-deps", "--wheel-dir", wheels, "-Ccmake.define.TIGHTDP_CUDA=ON")


def main() -> None:
    jobs = {job.__name__: job for job in (demo, test, hunt, lint, tidy, docs, cuda)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=jobs, help="; ".join(f"{name}: {job.__doc__}" for name, job in jobs.items()))
    known, options = parser.parse_known_args()
    if options and known.job != "hunt":
        parser.error(f"unknown options: {' '.join(options)}")
    jobs[known.job](*options)


if __name__ == "__main__":
    main()
