"""Docstrings of public callables are complete.

Complete means: every parameter is named, with what it is; what is returned and what is raised is said; and an example
runs (tests/project/test_documentation.py runs them). A method's parameters, errors and example may be those of its
class. A public property has a docstring.
"""

import importlib
import inspect
import re

import pytest

MODULES = {
    "tightdp": "sklearn",
    "tightdp.plots": "",
    "tightdp.cuda": "",
    "tightdp.certificates": "",
    "tightdp.metrics": "sklearn",
    "tightdp.model_selection": "sklearn",
    "tightdp.pipeline": "sklearn",
    "tightdp.audit": "",
    "tightdp.preprocessing": "sklearn",
    "tightdp.train": "sklearn",
    "tightdp.torch": "torch",
    "tightdp.adapters.opacus": "opacus",
    "tightdp.adapters.dp_accounting": "dp_accounting",
    "tightdp.adapters.jax_privacy": "dp_accounting",
    "tightdp.adapters.prv_accountant": "",
    "tightdp.adapters.transformers": "transformers",
}
"""Modules with public callables, and the library that each needs, if any."""
PLAIN = {"self", "cls", "args", "kwargs", "options", "progress"}
"""Parameters that need no explanation of their own: the options of questions are explained in one place."""


def list_public(module):
    """The public functions and classes of a module, and the methods that its classes define, by name."""
    found = importlib.import_module(module)
    names = getattr(found, "__all__", None) or [
        name
        for name, value in vars(found).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module and callable(value)
    ]
    for name in names:
        value = getattr(found, name)
        if inspect.isclass(value) and not issubclass(value, Exception):
            yield f"{module}.{name}", value, value
            for key, method in inspect.getmembers(value, inspect.isroutine):
                ours = (getattr(method, "__module__", None) or "").startswith("tightdp")
                if not key.startswith("_") and ours:
                    yield f"{module}.{name}.{key}", method, value
        elif inspect.isfunction(value):
            yield f"{module}.{name}", value, None


def list_distinct(module):
    """The public callables of a module, each once: an inherited method belongs to the first class that has it."""
    seen = set()
    for name, value, owner in list_public(module):
        function = getattr(value, "__func__", value)
        if function not in seen:
            seen.add(function)
            yield name, value, owner


def list_parameters(value):
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return [], None
    names = [name for name in signature.parameters if name not in PLAIN and not name.startswith("_")]
    return names, signature.return_annotation


def find_gaps(value, owner):
    """What the docstring of a callable misses."""
    text = inspect.getdoc(value) or ""
    if not text:
        return ["docstring"]
    around = text + "\n" + (inspect.getdoc(owner) or "" if owner is not None else "")
    if inspect.isclass(value):
        around += "\n" + "\n".join(inspect.getdoc(base) or "" for base in value.__mro__[1:-1])
    names, returned = list_parameters(value)
    gaps = [f"parameter {name}" for name in names if not re.search(rf"\b{re.escape(name)}\b", around)]
    returns = not inspect.isclass(value) and str(returned) not in ("None", "<class 'inspect._empty'>")
    if returns and not re.search(r"\b[Rr]eturns?\b|\bReads\b|\bmakes\b|\bMakes\b|\bLists\b|\bBuilds\b", text):
        gaps.append("returns")
    if names and not re.search(r"\b[Rr]aises?\b|Error\b|\bRefuses?\b|\brefused\b", around):
        gaps.append("raises")
    if ">>> " not in around:
        gaps.append("example")
    return gaps


def list_bare_properties(value):
    """The public properties of a class without a docstring."""
    for name, member in inspect.getmembers(value, lambda member: isinstance(member, property)):
        ours = (getattr(member.fget, "__module__", None) or "").startswith("tightdp")
        if ours and not name.startswith("_") and not inspect.getdoc(member):
            yield name


@pytest.mark.parametrize(
    "module", [pytest.param(name, marks=[pytest.mark.peers] * (".adapters." in name)) for name in MODULES]
)
def test_no_docstring_misses_anything(module):
    if MODULES[module]:
        pytest.importorskip(MODULES[module], reason=f"needs {MODULES[module]}")
    missing = {name: gaps for name, value, owner in list_distinct(module) if (gaps := find_gaps(value, owner))}
    bare = [f"{name}.{key}" for name, value, _ in list_public(module) if inspect.isclass(value)
            for key in list_bare_properties(value)]  # fmt: skip
    assert not missing and not bare
