"""The examples run, in their smallest form, as a user starts them."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch")

EXAMPLES = Path(__file__).parents[2] / "examples"
NEEDED = {"peft_lora.py": "peft", "trainer.py": "transformers"}
SMALLEST = [
    "mnist.py --made-up 60 --epochs 1 --batch-size 20",
    "cifar10.py --made-up 40 --epochs 1 --batch-size 20",
    "char_lstm.py --made-up 60 --epochs 1 --batch-size 20",
    "char_lstm.py --made-up 60 --epochs 1 --batch-size 20 --mode gru",
    "imdb.py --made-up 60 --batch-size 32 --epochs 1 --max-sequence-length 8",
    "peft_lora.py --made-up 40 --epochs 1 --batch-size 8",
    "trainer.py --made-up 64 --num_train_epochs 1",
]


def test_all_examples_are_run_somewhere():
    run = {command.split()[0] for command in SMALLEST}
    assert {path.name for path in EXAMPLES.glob("*.py")} == run | {"digits.py", "torchrun_digits.py"}


@pytest.mark.parametrize("command", SMALLEST)
def test_an_example_runs(command, tmp_path):
    name, *options = command.split()
    needed = NEEDED.get(name, "torch")
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"needs {needed}")
    found = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *options], cwd=tmp_path, capture_output=True, text=True, timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert re.search(r"epsilon <= \d|differentially private", found.stdout), found.stdout
