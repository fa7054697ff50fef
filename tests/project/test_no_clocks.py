"""No test reads a clock: whether it passes must not depend on what else the machine does."""

import ast

import pages
import pytest
from hypothesis import HealthCheck, settings

CLOCKS = {
    "time": {"time", "time_ns", "perf_counter", "perf_counter_ns", "process_time", "process_time_ns", "monotonic"}
    | {"monotonic_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns", "gmtime", "localtime"},
    "os": {"times"},
    "resource": {"getrusage"},
    "timeit": {"timeit", "repeat", "default_timer", "Timer"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}
"""Functions that read one, by the module or class whose attribute they are. Sleeping and timeouts read none."""
SOURCES = sorted(path for path in (pages.ROOT / "tests").rglob("*.py") if path.name != "test_no_clocks.py")


def readings(tree):
    """Lines and names where a clock is read, also in scripts that are run from strings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute)):
            holder = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            if node.attr in CLOCKS.get(holder, ()):
                yield node.lineno, f"{holder}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and CLOCKS.get(node.module or "", set()) & {a.name for a in node.names}:
            yield node.lineno, f"from {node.module}"
        elif isinstance(node, ast.Import) and {alias.name for alias in node.names} & {"timeit", "resource"}:
            yield node.lineno, "import"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value:
            try:
                inside = ast.parse(node.value)
            except SyntaxError:
                continue
            yield from ((node.lineno, name) for _, name in readings(inside))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(pages.ROOT / "tests")))
def test_no_test_reads_a_clock(source):
    assert not list(readings(ast.parse(source.read_text())))


@pytest.mark.parametrize(
    "line",
    [
        "import time\nassert time.process_time() < 1", "from time import perf_counter", "import datetime as d, timeit",
        "run('import time\\nprint(time.monotonic())')", "datetime.datetime.now()", "os.times()",
    ],
)  # fmt: skip
def test_a_clock_is_found(line):
    assert list(readings(ast.parse(line)))


def test_hypothesis_has_no_deadline():
    assert settings.default.deadline is None and HealthCheck.too_slow in settings.default.suppress_health_check
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "deadline":
                assert isinstance(node.value, ast.Constant) and node.value.value is None, f"{source}:{node.lineno}"
