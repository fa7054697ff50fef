"""Nothing depends on a draw: whatever a test draws is a function of its name and of one seed.

An ordinary run has seed 0. `python3 dev.py hunt` runs what draws again and again with new seeds, which it names: the
environment variable TIGHTDP_HUNT holds one, and then hypothesis draws by it too (--hypothesis-seed).
"""

import hashlib
import itertools
import json
import os
import random
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tightdp import SecureRandom, _core

SEED = int(os.environ.get("TIGHTDP_HUNT", "0"))

UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("test", derandomize=True, **UNTIMED)
settings.register_profile("hunt", derandomize=False, database=None, print_blob=True, **UNTIMED)
settings.load_profile("hunt" if SEED else "test")


@pytest.fixture(autouse=True)
def repeatable(request, monkeypatch):
    """What takes its seed from the operating system elsewhere takes the test's."""
    key = hashlib.sha256(f"{SEED} {request.node.nodeid}".encode()).digest()
    number, calls, default_rng = int.from_bytes(key, "little"), itertools.count(), np.random.default_rng
    random.seed(number)
    monkeypatch.setattr(
        np.random, "default_rng", lambda given=None: default_rng([number, next(calls)] if given is None else given)
    )
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(number % 2**63)
    if not request.node.get_closest_marker("entropy"):
        monkeypatch.setattr(SecureRandom, "stream", lambda source: _core.chacha_stream(key, next(calls)))


@pytest.fixture
def threads():
    """Sets the number of threads, for one test."""
    before = _core.max_threads()
    yield _core.set_max_threads
    _core.set_max_threads(before)


def pytest_configure(config):
    """Where TIGHTDP_WARNINGS is "error", as in CI, so is every warning, whoever's code it is in."""
    if os.environ.get("TIGHTDP_WARNINGS") == "error":
        for line in ("error", "ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"):  # of peft 0.21
            config.addinivalue_line("filterwarnings", line)


def pytest_addoption(parser):
    parser.addoption("--skipped-to", metavar="FILE", help="write down what was skipped")
    parser.addoption("--skipped-in", metavar="FILE", help="run what is written down there or marked peers or slow")


SKIPPED = set()
"""Names of tests, and of files that were skipped as a whole, in the process that gathers the reports."""


OPTIONAL = {"flint", "matplotlib", "mpmath", "scipy", "sklearn"}
"""Libraries of the extra [test] that a file of tests may import at its top."""


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Skips a file where a library that it imports is not installed: the others are collected all the same."""
    report = yield
    missing = report.failed and re.search(r"ModuleNotFoundError: No module named '(\w+)", str(report.longrepr))
    if missing and missing[1] in OPTIONAL:
        report.outcome, report.longrepr = "skipped", (str(collector.path), 0, f"Skipped: needs {missing[1]}")
    return report


def name_of(nodeid):
    """Without the group that xdist puts behind it."""
    return nodeid.rsplit("@", 1)[0]


def pytest_collectreport(report):
    if report.skipped:
        SKIPPED.add(report.nodeid)


def pytest_runtest_logreport(report):
    if report.skipped and not hasattr(report, "wasxfail"):
        SKIPPED.add(name_of(report.nodeid))


def pytest_sessionfinish(session):
    to = session.config.option.skipped_to
    if to and not hasattr(session.config, "workerinput"):
        Path(to).write_text(json.dumps(sorted(SKIPPED), indent=0))


def pytest_collection_modifyitems(config, items):
    """A hunt may end before all tests ran: another seed begins with others."""
    if config.option.skipped_in:
        skipped = set(json.loads(Path(config.option.skipped_in).read_text()))
        items[:] = [
            item
            for item in items
            if {name_of(item.nodeid), item.nodeid.split("::")[0]} & skipped
            or any(item.get_closest_marker(marker) for marker in ("peers", "slow"))
        ]
    if SEED:
        random.Random(SEED).shuffle(items)
