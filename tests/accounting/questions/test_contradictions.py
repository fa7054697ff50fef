"""Bounds that exclude each other raise, in an interpreter that drops assertions too (python -O)."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import tightdp as dp
from tightdp.accounting.engines import auto

engine, asked, of, question, low, high = sys.argv[1:]
assert False, "assertions are on"
if engine != "none":
    kind, wrong = type(auto.ENGINES[engine]), dp.Bound(float(low), float(high), "wrong")
    right = getattr(kind, asked)
    setattr(kind, asked, lambda *given: wrong if of in repr(given) else right(*given))
try:
    print("no error:", eval(question))
except dp.ContradictionError as error:
    print("contradiction:", error)
"""
LAPLACE = "(dp.PoissonSampled(dp.Laplace(1.0), 0.1) * 3)"
GAUSSIAN = "(dp.PoissonSampled(dp.Gaussian(1.0), 0.1) * 10)"


@pytest.mark.parametrize(
    ("engine", "asked", "of", "question", "low", "high", "message"),
    [
        ("renyi", "epsilon", "Laplace", f"{LAPLACE}.epsilon(1e-5, width=1e-300)", 3.0, 3.1, "engine renyi has"),
        ("contour", "epsilon", "Gaussian", f"{GAUSSIAN}.epsilon(1e-5, width=1e-300)", 0.5, 0.6, "engine grid has"),
        ("grid", "delta", "Gaussian", f"{GAUSSIAN}.delta(1.0, width=1e-300)", 0.1, 0.2, "engine grid has"),
        (
            "closed_form",
            "epsilon",
            "BoundedRange",
            "(dp.BoundedRange(1.0) * 2).epsilon(1e-5)",
            0.1,
            0.2,
            "a member of",
        ),
        ("none", "", "", "dp.Bound(1.0, 0.5, 'none')", 0.0, 0.0, "crossed its bounds"),
        ("none", "", "", "dp.Bound(float('nan'), 0.5, 'none')", 0.0, 0.0, "crossed its bounds"),
    ],
)
def test_a_contradiction_raises_without_assertions(engine, asked, of, question, low, high, message):
    command = [sys.executable, "-O", "-c", SCRIPT, engine, asked, of, question, str(low), str(high)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("contradiction: ") and message in done.stdout
