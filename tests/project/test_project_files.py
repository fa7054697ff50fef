"""The files beside the code say what pyproject.toml says, and name programs by version and no addresses."""

import ast
import importlib.util
import json
import re

import pages
import pytest

ROOT = pages.ROOT
PROJECT = (ROOT / "pyproject.toml").read_text()


def field(text: str, name: str, sign: str) -> str:
    return re.search(rf"^{name}{sign}\s*\"?([^\"\n]+)", text, re.MULTILINE)[1]


def test_the_citation_is_of_this_version():
    citation = (ROOT / "CITATION.cff").read_text()
    assert field(citation, "version", ":") == field(PROJECT, "version", " =")
    assert field(citation, "license", ":") == field(PROJECT, "license", " =")
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


@pytest.fixture
def dev():
    """dev.py as a module."""
    found = importlib.util.spec_from_file_location("dev", ROOT / "dev.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_lint_runs_the_versions_of_the_hooks(dev, monkeypatch):
    installed, ran = [], []
    monkeypatch.setattr(dev, "pip", lambda *arguments: installed.extend(arguments[1:]))
    monkeypatch.setattr(dev, "run", lambda *command, **_: ran.append(command))
    dev.lint()
    assert (dev.BIN / "python", "tools/check_names.py") in ran
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert {one.split("==")[0] for one in installed} == {"ruff", "mypy", "import-linter", "numpy"}
    for one in installed:
        assert set(re.findall(rf"\b{one.split('==')[0]}==[\w.]+", hooks)) == {one}


def test_the_oldest_python_that_is_promised_is_what_is_checked(dev):
    oldest = re.search(r'requires-python = ">=(3\.\d+)"', PROJECT)[1]
    assert field(PROJECT, "python_version", " =") == oldest
    assert field(PROJECT, "target-version", " =") == f"py{oldest.replace('.', '')}"
    named = re.findall(r"Python :: (3\.\d+)", PROJECT)
    assert named[0] == oldest
    assert [f"cp{one.replace('.', '')}-*" for one in named] == re.findall(r"cp\d+-\*", PROJECT)
    assert "dev.py pythons" in (ROOT / ".ci" / "run").read_text()
    assert len(dev.promised()) <= 2


def test_no_class_is_both_generic_and_a_named_tuple():
    """Python 3.10 cannot make one: nothing of the package could be imported."""
    for source in (ROOT / "python").rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases]
                assert "NamedTuple" not in bases or bases == ["NamedTuple"], f"{source}:{node.lineno}"


def test_no_two_test_files_have_the_same_name():
    """pytest imports a file of tests by its bare name, so that a second one of this name stops the collection."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) > 100
    assert sorted(set(names)) == sorted(names)
