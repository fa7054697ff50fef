"""Set-up and jobs for a fresh clone: python3 dev.py demo | test | peers | pythons | hunt | lint | tidy | docs | cuda.

Needs Python >= 3.10 and a C++20 compiler. Everything goes into .venv, .venv-peers and build/ beside this file. The
environment variable TIGHTDP_VENV may name another folder than .venv.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = Path(os.environ.get("TIGHTDP_VENV", ROOT / ".venv"))
FOLDER = "Scripts" if os.name == "nt" else "bin"
BIN = VENV / FOLDER
WHEELS = ROOT / "build" / "wheels" / str(sys.implementation.cache_tag)
SOURCES = "CMakeLists.txt", "pyproject.toml", "cmake/*", "cpp/**/*", "python/**/*.py*"
SKIPPED = ROOT / "build" / "skipped.json"
"""File that lists the tests that the last `test` skipped. Most of them need libraries that `peers` installs."""
QUICK = "-m", "not hunt and not slow"

SMOKE = "tests/project/test_api.py", "tests/statement/test_statement.py", "tests/train/test_gate.py"
"""Tests that take less than a minute, and cover most code whose behaviour may differ between versions of Python or
NumPy."""


def run(*command: str | Path, **environment: str) -> None:
    """Runs a command in the project's folder. If the command fails, this program ends with the command's exit code."""
    print("+", *command, flush=True)
    code = subprocess.run([str(part) for part in command], cwd=ROOT, env={**os.environ, **environment}).returncode
    if code:
        sys.exit(code)


def pip(*arguments: str | Path, place: Path = VENV) -> None:
    """Runs pip in the environment at ``place``, which is made on first use."""
    if not any((place / FOLDER).glob("python*")):
        print(f"+ venv {place}", flush=True)
        venv.create(place, with_pip=True)
    run(place / FOLDER / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)


def install(*extras: str, place: Path = VENV) -> None:
    """Installs the package, with tightdp._testing and the C++ tests.

    The wheel is built once for all environments, and built again if a source file is younger than the wheel.
    """
    youngest = max(path.stat().st_mtime for pattern in SOURCES for path in ROOT.glob(pattern) if path.is_file())
    if not any(wheel.stat().st_mtime > youngest for wheel in WHEELS.glob("*.whl")):
        shutil.rmtree(WHEELS, ignore_errors=True)
        # The short option -C is unknown to the pip 23.0 of Debian's Python 3.11.
        defined = [f"--config-settings=cmake.define.TIGHTDP_{each}" for each in ("BUILD_TESTS=ON", "CUDA=AUTO")]
        pip("wheel", ".", "--no-deps", "--wheel-dir", WHEELS, *defined, place=place)
    (wheel,) = WHEELS.glob("*.whl")
    pip("install", f"{wheel}[{','.join(extras)}]", place=place)
    pip("install", "--force-reinstall", "--no-deps", wheel, place=place)  # another build may have the same version


def demo() -> None:
    """Shows a certified epsilon, and trains a private model on real data that scikit-learn ships."""
    pip("install", ".[train]")
    demonstrate(BIN / "python")


def demonstrate(python: Path, **environment: str) -> None:
    """Runs the demo with an interpreter that has all libraries that the demo needs."""
    run(python, "-m", "tightdp.cli", "epsilon", "--noise-multiplier", "1.1", "--sampling-probability", "0.00427",
        "--steps", "14000", "--delta", "1e-5", **environment)  # fmt: skip
    run(python, "examples/digits.py", **environment)


def pytest(place: Path, *options: str) -> None:
    """Runs the tests on all cores. Every run makes the same random draws."""
    parallel = "-n", "auto", "--dist", "loadgroup"
    run(place / FOLDER / "python", "-m", "pytest", "-q", *parallel, *options, PYTHONHASHSEED="0")


def test() -> None:
    """Runs the tests that take less than five minutes on two cores and need no larger library than scikit-learn."""
    install("test")
    pytest(VENV, *QUICK, f"--skipped-to={SKIPPED}")


def peers() -> None:
    """Runs the tests that `test` leaves out, because they are slow or need PyTorch, other accountants or readers of
    tables."""
    place = ROOT / ".venv-peers"
    install("test", "peers", place=place)
    pytest(place, *([f"--skipped-in={SKIPPED}"] if SKIPPED.exists() else []))


def promised() -> list[str]:
    """Returns the oldest and the newest Python of pyproject.toml that are found on the path or among pyenv's."""
    project, found = (ROOT / "pyproject.toml").read_text(), []
    for version in re.findall(r"Python :: (3\.\d+)", project):
        kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/{FOLDER}/python*[0-9]"))
        for each in (f"python{version}", *map(str, kept)):
            asked = [
                each,
                "-c",
                f"import sys, venv; sys.exit(sys.version_info[:2] != {tuple(map(int, version.split('.')))})",
            ]
            if shutil.which(each) and not subprocess.run(asked, capture_output=True).returncode:
                found.append(each)
                break
    return [*dict.fromkeys([found[0], found[-1]])] if found else []


def pythons() -> None:
    """Imports everything, runs the demo and a few tests, with the oldest and the newest promised Python found here."""
    for interpreter in promised():
        with tempfile.TemporaryDirectory() as folder:
            run(interpreter, "-m", "venv", f"{folder}/venv")
            place, package = Path(folder) / "venv", Path(folder) / "package"
            needed = "cmake", "ninja", "pybind11>=2.13", "scikit-learn>=1.6", "pytest>=8", "hypothesis>=6.100"
            pip("install", *needed, place=place)
            python = place / FOLDER / "python"
            bind(python, package / "tightdp", "_core")
            run(python, "tools/import_all.py", PYTHONPATH=str(package))
            demonstrate(python, PYTHONPATH=str(package))
            run(python, "-m", "pytest", "-q", *QUICK, *SMOKE, PYTHONPATH=str(package), PYTHONHASHSEED="0")


def bind(python: Path, package: Path, *modules: str, **defined: str) -> None:
    """Makes the package for an interpreter, from the library's object files that ``test`` has made and new bindings.

    Only the CMake and the Ninja that made the object files use them again, because other versions write other commands
    and another log. If that CMake or that Ninja is gone, the programs of the interpreter's environment compile
    everything again. ``modules`` are the names of the compiled modules, and ``defined`` are variables of CMake.
    """
    objects = next((ROOT / "build").glob("cp*-*"), ROOT / "build" / "pythons")
    asked = (
        "import pybind11, sys, sysconfig as s; print(pybind11.get_cmake_dir(), sys.base_prefix, s.get_path('include'))"
    )
    found = subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True).stdout.split()
    given = {
        "CMAKE_BUILD_TYPE": "Release",
        "Python_EXECUTABLE": python,
    }
    given |= dict(zip(("pybind11_DIR", "Python_ROOT_DIR", "Python_INCLUDE_DIR"), found, strict=True))
    given |= {"TIGHTDP_BUILD_TESTS": "ON", "TIGHTDP_CUDA": "OFF", **defined}
    cache = objects / "CMakeCache.txt"
    kept = dict(re.findall(r"^(CMAKE_\w+):\w+=(.+)$", cache.read_text(), re.M)) if cache.exists() else {}
    cmake, ninja = Path(kept.get("CMAKE_COMMAND", "")), Path(kept.get("CMAKE_MAKE_PROGRAM", ""))
    if not (cmake.is_file() and ninja.is_file()):
        cmake, ninja = python.with_name("cmake"), python.with_name("ninja")
    given["CMAKE_MAKE_PROGRAM"] = ninja
    for built in (found for name in modules for found in objects.rglob(f"{name}.*.so")):
        built.unlink()
    run(cmake, "-S", ".", "-B", objects, "-G", "Ninja", *(f"-D{name}={value}" for name, value in given.items()))
    run(cmake, "--build", objects, "--target", *modules)
    shutil.copytree(ROOT / "python" / "tightdp", package, ignore=shutil.ignore_patterns("*.so"))
    for built in (found for name in modules for found in objects.rglob(f"{name}.*.so")):
        shutil.copy(built, package)


def hunt(*options: str) -> None:
    """Runs tests that draw new random values, until the time is up: hunt [--minutes 30] [--seed N]."""
    install("test")
    run(BIN / "python", "tools/hunt.py", *options)


def pinned(*programs: str) -> list[str]:
    """Returns the requirements of these programs, in the versions that the hooks of pre-commit name."""
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    return [re.search(rf"\b{program}==[\w.]+", hooks)[0] for program in programs]


def lint() -> None:
    """Checks style, types, names and imports, by the programs' versions of the hooks, which need Python 3.11."""
    pip("install", *pinned("ruff", "mypy", "import-linter", "numpy"))
    run(BIN / "ruff", "check", ".")
    run(BIN / "ruff", "format", "--check", ".")
    run(BIN / "mypy")
    run(BIN / "lint-imports", "--no-cache", PYTHONPATH="python")
    run(BIN / "python", "tools/check_names.py")


def tidy() -> None:
    """Runs clang-tidy over the C++ sources of the host, which takes minutes."""
    pip("install", "clang-tidy", "cmake", "ninja")
    run(BIN / "cmake", "--preset", "release", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={BIN / 'ninja'}")
    run(BIN / "python", BIN / "run-clang-tidy.py", "-quiet", "-p", "build/release",
        "-clang-tidy-binary", BIN / "clang-tidy")  # fmt: skip


KATEX = "0.19.1"
"""Version of KaTeX, which typesets the formulas of the site. It is fetched from the registry of npm, and shipped with
the site."""


def fetch_katex() -> None:
    """Unpacks KaTeX's script, style and fonts into build/katex/katex, if npm is installed."""
    place = ROOT / "build" / "katex"
    if (place / "katex" / KATEX).exists():
        return
    if not shutil.which("npm"):
        print("Formulas are left as text: typesetting them needs npm.", flush=True)
        return
    shutil.rmtree(place, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        run("npm", "pack", "--silent", "--pack-destination", folder, f"katex@{KATEX}")
        (archive,) = Path(folder).glob("*.tgz")
        shutil.unpack_archive(archive, folder, **({"filter": "data"} if sys.version_info >= (3, 12) else {}))
        package = Path(folder) / "package"
        (place / "katex").mkdir(parents=True)
        for name in ("dist/katex.min.js", "dist/katex.min.css", "LICENSE"):
            shutil.copy(package / name, place / "katex")
        fonts = shutil.ignore_patterns("*.ttf", "*.woff")
        shutil.copytree(package / "dist" / "fonts", place / "katex" / "fonts", ignore=fonts)
    (place / "katex" / KATEX).touch()


def docs() -> None:
    """Builds the site into build/docs. A warning counts as an error."""
    pip("install", ".[docs]")
    fetch_katex()
    run(BIN / "python", "-m", "sphinx", "-q", "-E", "--fail-on-warning", "--keep-going", "docs", "build/docs")
    if shutil.which("em++"):
        run(BIN / "python", "tools/calculator.py", "build/docs/_static")
    else:
        print("The calculator is left out: it needs emscripten (Debian's package of that name).", flush=True)


def cuda() -> None:
    """Compiles the CUDA module for every architecture and imports it. This needs nvcc, and no device."""
    install("test")
    pip("install", "cmake", "ninja", "pybind11>=2.13")
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "tightdp"
        bind(BIN / "python", package, "_cuda", TIGHTDP_CUDA="ON")
        for built in VENV.rglob("tightdp/_*.so"):
            shutil.copy(built, package)
        run(BIN / "python", "-c", "import tightdp._cuda", PYTHONPATH=folder)
        run(BIN / "python", "-m", "pytest", "-q", "tests/release/test_device_module.py", PYTHONPATH=folder)


def main() -> None:
    jobs = {job.__name__: job for job in (demo, test, peers, pythons, hunt, lint, tidy, docs, cuda)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=jobs, help="; ".join(f"{name}: {job.__doc__}" for name, job in jobs.items()))
    known, options = parser.parse_known_args()
    if options and known.job != "hunt":
        parser.error(f"unknown options: {' '.join(options)}")
    jobs[known.job](*options)


if __name__ == "__main__":
    main()
