"""Tests that wheels of other libraries ship, with our classes in the place of theirs: ``suites/`` says which must fail.

Opacus' are in test_opacus_suite.py. The wheels of riskcal, prv-accountant, autodp and jax_privacy ship no tests.
"""

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

if not importlib.util.find_spec("dp_accounting"):
    pytest.skip("dp-accounting is not installed", allow_module_level=True)
if importlib.metadata.version("dp-accounting") != "0.6.0":
    pytest.skip("the expected failures are those of dp-accounting 0.6.0", allow_module_level=True)

import tightdp

SUITES = Path(__file__).parent / "suites"
PASSING = {
    "pld.pld_privacy_accountant_test": 61,
    "rdp.rdp_privacy_accountant_test": 116,
    "pld.privacy_loss_distribution_test": 141,
    "mechanism_calibration_test": 41,
}
"""How many of each must pass; all others are expected to fail."""


@pytest.mark.parametrize("module", PASSING)
def test_their_tests_with_ours_in_place(module, tmp_path):
    options = ["-q", "--noconftest", "-p", "no:cacheprovider", "-p", "in_place", "-W", "ignore", "-c", os.devnull]
    command = [sys.executable, "-m", "pytest", *options, "--pyargs", f"dp_accounting.{module}"]
    package = str(Path(tightdp.__file__).parents[1])
    environment = {**os.environ, "SUITE": "dp_accounting", "PYTHONPATH": os.pathsep.join([str(SUITES), package])}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1800)
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert passed and int(passed[1]) == PASSING[module], ran.stdout[-2000:]


def test_every_expected_failure_has_a_reason():
    for file in SUITES.glob("*.txt"):
        heading, *lines = file.read_text().splitlines()
        tests = [line for line in lines if line and not line.startswith("#")]
        assert heading.startswith("Tests of") and len(set(tests)) == len(tests) > 0
        assert lines[1].startswith("# ") and all(len(line) > 10 for line in lines if line.startswith("#"))
