"""Compiled modules: their stubs name what they hold, the package calls it, and no wheel holds what only tests call."""

import ast
import re
from pathlib import Path
from types import ModuleType

import pages

from tightdp import _core

PACKAGE = pages.ROOT / "python" / "tightdp"
CUDA = (pages.ROOT / "cpp" / "bindings" / "cuda" / "module.cpp").read_text()
FIELDS = r'm\.def\("(\w+)"((?:[^;"]|"\w+"_a)*)\);'
"""A function of a binding's source and its arguments, "name"_a each."""
STATE = {"aes_stream", "chacha_stream", "choose_way", "max_threads", "product_ways", "set_max_threads",
         "grid_crossings", "grid_found", "grid_keep", "grid_kept", "work_left", "work_passed_by_all",
         "work_spent"}  # fmt: skip
"""What tests need of the package's own threads, stores, counters and streams, which no other module can give."""


def stubbed(body, prefix=""):
    """Name to argument names (of a function) or None, from a stub; those of a class or submodule after a dot."""
    found = {}
    for node in body:
        if isinstance(node, ast.ClassDef):
            found[prefix + node.name] = None
            found |= stubbed(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            is_property = any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list)
            arguments = [a.arg for a in node.args.args if a.arg != "self"]
            arguments += ["*" + node.args.vararg.arg] if node.args.vararg else []
            found[prefix + node.name] = None if is_property else arguments
        elif isinstance(node, ast.AnnAssign):
            found[prefix + node.target.id] = None
    return found


def stub(path):
    return stubbed(ast.parse(path.read_text()).body)


def documented(doc):
    """Argument names that a docstring of pybind11 gives, or None: `name(x: float, out: numpy.ndarray[...]) -> None`."""
    line = next((line for line in (doc or "").splitlines() if re.match(r"(1\. )?\w+\((?!\*args)", line)), None)
    if line is None or "arg0" in line:
        return None
    depth, flat = 0, ""
    for c in line[line.index("(") + 1 :]:
        depth += (c in "([{") - (c in ")]}")
        if depth < 0:
            break
        flat += c if depth == 0 else ""
    return [name for name in (part.split(":")[0].strip() for part in flat.split(",")) if name not in ("", "self")]


def bound(holder, prefix=""):
    """The same of a compiled module."""
    found = {}
    for name in vars(holder):
        if name.startswith("_") and name not in ("__version__", "__init__", "__enter__", "__exit__"):
            continue
        value = getattr(holder, name)
        if isinstance(value, type | ModuleType):
            found[prefix + name] = None
            found |= bound(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = documented(value.__doc__) if callable(value) else None
    return found


def test_the_stub_of_the_core_names_what_it_has():
    said, found = stub(PACKAGE / "_core.pyi"), bound(_core)
    implicit = {name for name in found if name.endswith(".__init__") and name not in said}  # "no constructor defined"
    assert set(said) == set(found) - implicit
    compared = 0
    for name, arguments in found.items():
        if arguments:
            assert said[name] == arguments, name
            compared += 1
    assert compared > 10


def test_the_stub_of_the_device_module_names_what_its_source_binds():
    source = {name: re.findall(r'"(\w+)"_a', rest) for name, rest in re.findall(FIELDS, CUDA)}
    assert len(source) == CUDA.count("m.def(")
    assert {
        name: arguments for name, arguments in stub(PACKAGE / "_cuda.pyi").items() if arguments is not None
    } == source


def test_the_package_calls_every_compiled_function():
    nodes = [node for path in PACKAGE.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "_core"]
    read |= {alias.name for node in imports for alias in node.names}  # an unused import fails lint
    for path in (PACKAGE / "_core.pyi", PACKAGE / "_cuda.pyi"):
        functions = {name.split(".")[-1] for name, arguments in stub(path).items() if arguments is not None}
        assert {name for name in functions - read if not name.startswith("__")} <= STATE, path


def test_no_wheel_holds_what_only_tests_call():
    """The name of a function that is bound stands in the file, and so do the symbols of a library."""
    lists = (pages.ROOT / "CMakeLists.txt").read_text()
    assert re.search(r"option\(TIGHTDP_BUILD_TESTS .* OFF\)", lists)
    assert re.search(r"if\(TIGHTDP_BUILD_TESTS\)\s*add_subdirectory\(cpp/testing\)\s*endif", lists)
    assert lists.count("testing)") == 1
    for path in (Path(_core.__file__), *Path(_core.__file__).parent.glob("lib/*.a")):
        assert b"emulate" not in path.read_bytes(), path
