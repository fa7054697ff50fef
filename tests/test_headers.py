"""Another C++ project can build on the headers."""

import shutil
import subprocess

import pytest

import tightdp as dp

PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(user CXX)
find_package(tightdp CONFIG REQUIRED)
add_executable(user user.cpp)
target_link_libraries(user PRIVATE tightdp::headers)
"""
PROGRAM = """
#include <cstdio>
#include <tightdp/contour/aliasing.hpp>
int main() { std::printf("%.17g", tightdp::contour::log_kappa(1.0)); }
"""


def test_a_cmake_project_finds_and_compiles_them(tmp_path):
    cmake, compiler = shutil.which("cmake"), shutil.which("c++") or shutil.which("g++")
    if not (cmake and compiler):
        pytest.skip("needs cmake and a C++ compiler on the path")
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    (tmp_path / "user.cpp").write_text(PROGRAM)
    build = tmp_path / "build"
    configure = [cmake, "-S", tmp_path, "-B", build, f"-Dtightdp_DIR={dp.get_cmake_dir()}"]
    subprocess.run(configure, check=True, capture_output=True)
    subprocess.run([cmake, "--build", build], check=True, capture_output=True)
    printed = subprocess.run([build / "user"], check=True, capture_output=True, text=True).stdout
    # kappa(1) = 1^1 / 2^2
    assert float(printed) == pytest.approx(-1.3862943611198906, rel=1e-15)


def test_the_include_directory_holds_the_headers():
    from pathlib import Path

    assert (Path(dp.get_include()) / "tightdp" / "contour" / "aliasing.hpp").is_file()
