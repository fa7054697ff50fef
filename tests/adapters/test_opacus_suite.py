"""Opacus' own tests, run from its installed package with our accountant, optimisers and engine in place of theirs.

``opacus_in_place`` puts them there, and says which tests expect values of Opacus' own bounds.
"""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("opacus") is None:
    pytest.skip("needs torch and Opacus", allow_module_level=True)

HERE = Path(__file__).parent
PASSING = {
    "accountants_test": 6,
    "accounting_noise_multiplier_test": 7,
    "batch_memory_manager_test": 6,
    "gradient_accumulation_test": 10,
    "randomness_test": 22,
    "privacy_engine_test": 175,
}
"""How many of each must pass; the others are skipped or expected to fail."""


@pytest.mark.parametrize("module", PASSING)
def test_opacus_own_tests(module, tmp_path):
    options = ["-q", "-p", "no:cacheprovider", "-p", "opacus_in_place", "-W", "ignore", "-c"]
    command = [sys.executable, "-m", "pytest", *options, os.devnull, "--pyargs", f"opacus.tests.{module}"]
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}  # beside other tests
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1800)
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert passed and int(passed[1]) >= PASSING[module], ran.stdout[-2000:]
