"""Runs the C++ unit tests: those that dev.py built with the package, or else a build without the extension module, for
the baseline alone (other tests compare the variants)."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("cpp")  # one build for all
ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(p.stem for p in (ROOT / "cpp" / "tests").glob("test_*.cpp"))


def tool(name):
    """On the path, or beside the interpreter."""
    return shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))


def built_with_the_package():
    """The folder of the tests' programs where all are newer than every source, else None."""
    newest = max(path.stat().st_mtime for path in (ROOT / "cpp").rglob("*.?pp"))
    for folder in (ROOT / "build").glob("*/cpp/tests"):
        programs = [folder / name for name in NAMES]
        if all(program.is_file() and program.stat().st_mtime > newest for program in programs):
            return folder
    return None


@pytest.fixture(scope="session")
def binaries(tmp_path_factory):
    if found := built_with_the_package():
        return found
    cmake = tool("cmake")
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if cmake is None or compiler is None:
        pytest.skip("no cmake or no C++ compiler here")
    folder = tmp_path_factory.mktemp("cpp")
    generator = ["-G", "Ninja"] if tool("ninja") else []
    ninja = [f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"] if generator else []
    options = {"CMAKE_BUILD_TYPE": "Release", "BUILD_PYTHON": "OFF", "BUILD_TESTS": "ON", "DISPATCH": "OFF"}
    flags = [f"-D{'' if k.startswith('CMAKE') else 'TIGHTDP_'}{k}={v}" for k, v in options.items()]
    for command in (
        [cmake, "-S", str(ROOT), "-B", str(folder), *generator, *ninja, *flags],
        [cmake, "--build", str(folder), "--parallel", "2"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return folder / "cpp" / "tests"


@pytest.mark.parametrize("name", NAMES)
def test_unit(binaries, name):
    done = subprocess.run([str(binaries / name)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
