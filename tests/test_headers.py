"""Another C++ project can build on the headers, as the tutorial says."""

import shutil
import subprocess

import pages
import pytest

import tightdp as dp

PAGE = pages.DOCS / "tutorials" / "cpp.md"


def test_the_tutorials_program_builds_and_prints_what_the_page_says(tmp_path):
    cmake, compiler = shutil.which("cmake"), shutil.which("c++") or shutil.which("g++")
    if not (cmake and compiler):
        pytest.skip("needs cmake and a C++ compiler on the path")
    said = pages.expected(PAGE)
    files = {block.body.split(maxsplit=2)[1]: block for block in pages.blocks(PAGE) if block.kind in ("cmake", "cpp")}
    assert set(files) == {"CMakeLists.txt", "main.cpp"}
    for name, block in files.items():
        (tmp_path / name).write_text(block.body)
    build = tmp_path / "build"
    configure = [cmake, "-S", tmp_path, "-B", build, f"-Dtightdp_DIR={dp.get_cmake_dir()}"]
    subprocess.run(configure, check=True, capture_output=True)
    subprocess.run([cmake, "--build", build], check=True, capture_output=True)
    printed = subprocess.run([build / "privacy"], check=True, capture_output=True, text=True).stdout
    assert pages.matches(said[files["main.cpp"].line], printed), printed


def test_the_include_directory_holds_the_headers():
    from pathlib import Path

    assert (Path(dp.get_include()) / "tightdp" / "contour" / "aliasing.hpp").is_file()
