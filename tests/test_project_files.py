"""The files beside the code say what pyproject.toml says, and name programs by version and no addresses."""

import json
import re

import pages

ROOT = pages.ROOT
PROJECT = (ROOT / "pyproject.toml").read_text()


def field(text: str, name: str, sign: str) -> str:
    return re.search(rf"^{name}{sign}\s*\"?([^\"\n]+)", text, re.MULTILINE)[1]


def test_the_citation_is_of_this_version():
    citation = (ROOT / "CITATION.cff").read_text()
    assert field(citation, "version", ":") == field(PROJECT, "version", " =")
    assert f'license = {{ text = "{field(citation, "license", ":")}" }}' in PROJECT
    assert "http" not in citation


def test_the_presets_exist_and_set_options_that_cmake_knows():
    presets = json.loads((ROOT / "CMakePresets.json").read_text())
    configured = {preset["name"]: preset for preset in presets["configurePresets"]}
    assert set(configured) == {"base", "release", "debug", "sanitizers", "windows", "cuda"}
    cmake = (ROOT / "CMakeLists.txt").read_text() + (ROOT / "cmake" / "cuda.cmake").read_text()
    for preset in configured.values():
        for name in preset["cacheVariables"]:
            assert name.startswith("CMAKE_") or re.search(rf"\b{name}\b", cmake), name


def test_each_hook_is_local_and_names_its_programs_version():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"- repo: (\S+)", hooks) == ["local"] and "http" not in hooks
    programs = re.findall(r"additional_dependencies: \[([\w-]+)==[\d.]+[\],]", hooks)
    assert programs == ["ruff", "ruff", "clang-format", "mypy", "import-linter", "codespell"]
    assert hooks.count("- id:") == len(programs)
