"""Docstrings of public callables are complete; what is not yet may only become less.

Complete means: every parameter is named, with what it is; what is returned and what is raised is said; and an example
runs (tests/project/test_documentation.py runs them). A method's parameters may be explained by its class.
"""

import importlib
import inspect
import re

import pytest

MODULES = (
    "tightdp",
    "tightdp.plots",
    "tightdp.metrics",
    "tightdp.model_selection",
    "tightdp.pipeline",
    "tightdp.audit",
    "tightdp.preprocessing",
    "tightdp.train",
)
GAPS = {}
"""Number of callables that still miss something, by what they miss. A number that falls is written down here."""
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


def count_gaps():
    """Callables that miss something, by kind, and all of them by name."""
    counts, places = {}, {}
    seen = set()
    for module in MODULES:
        for name, value, owner in list_public(module):
            key = getattr(value, "__func__", value)
            if id(key) in seen:
                continue
            seen.add(id(key))
            for kind in {gap.split()[0] for gap in find_gaps(value, owner)}:
                counts[kind] = counts.get(kind, 0) + 1
                places.setdefault(kind, []).append(name)
    return counts, places


def test_gaps_only_become_fewer():
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    counts, places = count_gaps()
    for kind in sorted({*counts, *GAPS}):
        now, limit = counts.get(kind, 0), GAPS.get(kind, 0)
        assert now <= limit, f"{now} callables miss {kind}, more than {limit}: {places[kind]}"
        assert now == limit, f"only {now} callables miss {kind} now: write that into GAPS"
