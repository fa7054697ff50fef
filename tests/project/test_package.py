"""The installed package: its version, and what its shared objects need and offer."""

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tightdp
from tightdp import _core


def test_version_has_one_home():
    from importlib.metadata import version

    assert tightdp.__version__ == version("tightdp")


def test_shared_objects_load_with_an_old_c_library():
    """No symbol is newer than glibc 2.28 (manylinux_2_28), and the C++ library is inside."""
    if not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc" or shutil.which("objdump") is None:
        pytest.skip("needs Linux with glibc, and objdump")
    for path in (_core.__file__, tightdp.get_library()):
        found = subprocess.run(["objdump", "-T", "-p", path], check=True, capture_output=True, text=True).stdout
        versions = re.findall(r"\(?GLIBC_(\d+)\.(\d+)", found)
        assert versions and max((int(major), int(minor)) for major, minor in versions) <= (2, 28), path
        assert "libstdc++" not in found, path


def test_the_c_library_exports_its_interface_alone():
    if not sys.platform.startswith("linux") or shutil.which("nm") is None:
        pytest.skip("needs Linux, and nm")
    command = ["nm", "-D", "--defined-only", tightdp.get_library()]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    names = {line.split()[-1] for line in lines if line and line.split()[1] != "A"}
    header = Path(tightdp.get_include(), "tightdp", "tightdp.h").read_text()
    declared = re.findall(r"^TIGHTDP_API\b.*?\b(tightdp_\w+)\(", header, re.M)
    assert {"tightdp_epsilon", "tightdp_calibrate", "tightdp_last_error"} <= set(declared)
    assert names == {f"{name}@@TIGHTDP_0.1" for name in declared}
