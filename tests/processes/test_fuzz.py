"""Bad input to everything public, in a process of its own (fuzz.py)."""

import os
import subprocess
import sys
from pathlib import Path

import fuzz
import pytest

import tightdp as dp

SEED = int(os.environ.get("TIGHTDP_HUNT", "0"))


def run(seed, calls, seconds):
    command = [sys.executable, fuzz.__file__, str(seed), str(calls)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_bad_input_gets_an_answer_or_an_error():
    run(SEED, 60, 600)


@pytest.mark.hunt
@pytest.mark.parametrize("part", range(8))
def test_more_bad_input(part):
    run(8 * SEED + part, 150, 1800)


def test_what_the_fuzzer_would_find():
    for function, error in (
        (lambda: {}["no such key"], KeyError),
        (lambda: 1 / 0, ZeroDivisionError),
        (lambda: dp.clipped_sum(rows=[[1.0]]), AssertionError),
    ):
        with pytest.raises(error):
            fuzz.call("planted", function, {})
