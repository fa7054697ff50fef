"""Other projects can build on the headers and the libraries, as the tutorials say."""

import shutil
import subprocess
from pathlib import Path

import pages
import pytest

import tightdp as dp

TUTORIALS = {"cpp": pages.DOCS / "tutorials" / "cpp.md", "c": pages.DOCS / "tutorials" / "c.md"}
INCLUDE = pages.DOCS.parent / "cpp" / "include"
HEADERS = sorted(str(path.relative_to(INCLUDE)) for path in INCLUDE.rglob("*.h*"))


@pytest.mark.parametrize("language", TUTORIALS)
def test_the_tutorials_program_builds_and_prints_what_the_page_says(language, tmp_path):
    cmake, compiler = shutil.which("cmake"), shutil.which("c++") or shutil.which("g++")
    if not (cmake and compiler):
        pytest.skip("needs cmake and a C++ compiler on the path")
    page, source = TUTORIALS[language], f"main.{language}"
    said = pages.expected(page)
    blocks = [block for block in pages.blocks(page) if block.kind in ("cmake", language)]
    files = {Path(block.body.split(maxsplit=2)[1]).name: block for block in blocks}
    assert set(files) == {"CMakeLists.txt", source}
    for name, block in files.items():
        (tmp_path / name).write_text(block.body)
    build = tmp_path / "build"
    configure = [cmake, "-S", tmp_path, "-B", build, f"-Dtightdp_DIR={dp.get_cmake_dir()}"]
    subprocess.run(configure, check=True, capture_output=True)
    subprocess.run([cmake, "--build", build], check=True, capture_output=True)
    printed = subprocess.run([build / "privacy"], check=True, capture_output=True, text=True).stdout
    assert pages.matches(said[files[source].line], printed), printed


PARENT = """cmake_minimum_required(VERSION 3.22)
project(parent CXX)
{taken_in}
add_executable(small main.cpp)
target_link_libraries(small PRIVATE tightdp::headers)
add_executable(whole EXCLUDE_FROM_ALL main.cpp)
target_link_libraries(whole PRIVATE tightdp::tightdp tightdp::c)
"""
PROGRAM = """#include <cstdio>
#include <tightdp/accounting/gaussian.hpp>
int main() { std::printf("%.17g", tightdp::gaussian_epsilon(1.0, 1e-5).upper); }
"""
TAKEN_IN = {
    "add_subdirectory": f'add_subdirectory("{pages.ROOT}" tightdp)',
    "FetchContent": (
        f'include(FetchContent)\nFetchContent_Declare(tightdp SOURCE_DIR "{pages.ROOT}")\n'
        "FetchContent_MakeAvailable(tightdp)"
    ),
}


@pytest.mark.parametrize("way", TAKEN_IN)
def test_another_project_takes_the_sources_in(way, tmp_path):
    """With the same targets as an installed tightdp, no Python extension, and nothing to install."""
    cmake, compiler = shutil.which("cmake"), shutil.which("c++") or shutil.which("g++")
    if not (cmake and compiler):
        pytest.skip("needs cmake and a C++ compiler on the path")
    (tmp_path / "CMakeLists.txt").write_text(PARENT.format(taken_in=TAKEN_IN[way]))
    (tmp_path / "main.cpp").write_text(PROGRAM)
    build = tmp_path / "build"
    subprocess.run([cmake, "-S", tmp_path, "-B", build], check=True, capture_output=True)
    subprocess.run([cmake, "--build", build, "--target", "small"], check=True, capture_output=True)
    printed = subprocess.run([build / "small"], check=True, capture_output=True, text=True).stdout
    assert float(printed) == pytest.approx(dp.Gaussian(1.0).epsilon(1e-5).upper, rel=1e-12)
    assert "TIGHTDP_BUILD_PYTHON:BOOL=OFF" in (build / "CMakeCache.txt").read_text()
    assert "tightdpTargets" not in "".join(path.read_text() for path in build.rglob("cmake_install.cmake"))


@pytest.mark.parametrize("language", TUTORIALS)
def test_pkg_config_alone_builds_the_tutorials_program(language, tmp_path):
    """Without Python, and without CMake."""
    tools = shutil.which("pkg-config"), shutil.which("cc"), shutil.which("c++")
    if not all(tools):
        pytest.skip("needs pkg-config and compilers on the path")
    said = pages.expected(TUTORIALS[language])
    [block] = [one for one in pages.blocks(TUTORIALS[language]) if one.kind == language]
    (tmp_path / f"main.{language}").write_text(block.body)
    folder = Path(dp.get_library()).parent / "pkgconfig"
    environment = {"PATH": "/usr/bin:/bin", "PKG_CONFIG_PATH": str(folder)}
    name, compiler = {"c": ("tightdp_c", "cc"), "cpp": ("tightdp", "c++ -std=c++20")}[language]
    build = f"{compiler} main.{language} -o program $(pkg-config --cflags --libs {name})"
    subprocess.run(["sh", "-c", build], cwd=tmp_path, env=environment, check=True, capture_output=True)
    printed = subprocess.run([tmp_path / "program"], env={}, check=True, capture_output=True, text=True).stdout
    assert pages.matches(said[block.line], printed), printed


def test_a_plain_build_is_optimised(tmp_path):
    if not (shutil.which("cmake") and (shutil.which("c++") or shutil.which("g++"))):
        pytest.skip("needs cmake and a C++ compiler on the path")
    subprocess.run(["cmake", "-S", pages.ROOT, "-B", tmp_path], check=True, capture_output=True)
    assert "CMAKE_BUILD_TYPE:STRING=Release" in (tmp_path / "CMakeCache.txt").read_text()


def test_the_include_directory_holds_the_headers():
    installed = Path(dp.get_include())
    assert {str(path.relative_to(installed)) for path in installed.rglob("*.h*")} == set(HEADERS)


@pytest.mark.parametrize("header", HEADERS)
def test_every_installed_header_compiles_alone(header):
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("needs a C++ compiler on the path")
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", "-x", "c++", "-"]
    done = subprocess.run(command, input=f"#include <{header}>\n", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_c_header_compiles_as_c():
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler on the path")
    command = [compiler, "-std=c99", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{INCLUDE}"]
    program = "#include <tightdp/tightdp.h>\n"
    done = subprocess.run([*command, "-x", "c", "-"], input=program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
