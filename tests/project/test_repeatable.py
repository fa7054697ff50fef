"""An ordinary run draws the same every time, a hunt what its seed says (conftest.py)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DRAWS = """
import random
import numpy as np
import tightdp as dp
import pytest
from hypothesis import given, settings, strategies as st

drawn = []

@pytest.fixture(autouse=True, scope="module")
def show():
    yield
    print(sorted(drawn, key=repr))

@settings(max_examples=5)
@given(st.floats(0, 1), st.integers())
def test_hypothesis(x, n):
    drawn.append((x, n))

def test_sources():
    drawn.append(dp.SecureRandom().normal(2).tolist())
    drawn.append(dp.SecureRandom().normal(2).tolist())
    drawn.append(np.random.default_rng().normal(size=2).tolist())
    drawn.append(np.random.default_rng().normal(size=2).tolist())
    drawn.append(np.random.default_rng(1).normal(size=2).tolist() == [0.345584192064786, 0.8216181435011584])
    drawn.append(random.random())
"""


def drawn(folder, hunt, *options):
    file = folder / "test_draws.py"
    file.write_text(DRAWS)
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "TIGHTDP_HUNT": str(hunt)}
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "conftest", *options, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "[(" in line]
    found = line[line.index("[(") :]
    assert "True" in found and "False" not in found
    return found


@pytest.mark.slow
def test_what_tests_draw(tmp_path):
    ordinary = drawn(tmp_path, 0)
    assert drawn(tmp_path, 0) == ordinary != drawn(tmp_path, 1, "--hypothesis-seed=1")


@pytest.mark.hunt
def test_what_a_hunt_draws(tmp_path):
    found = [drawn(tmp_path, seed, f"--hypothesis-seed={seed}") for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]
