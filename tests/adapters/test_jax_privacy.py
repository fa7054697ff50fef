"""jax_privacy with our accountant, in a process of its own: JAX's threads would outlive these tests."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.skipif(importlib.util.find_spec("jax_privacy") is None, reason="jax-privacy is not installed")
def test_plans_and_calibrators_of_jax_privacy():
    command = [sys.executable, "-m", "pytest", "-q", "-W", "default", "-p", "no:cacheprovider", "-p", "no:xdist"]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    file = TESTS / "adapters" / "in_jax.py"
    done = subprocess.run([*command, str(file)], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
