"""Examples of the commands, which each command's --help shows.

The examples work as printed, one after another, in a folder with two files. ``people.csv`` is a table with the columns
``age``, ``hours`` and ``owner``, which is yes or no. ``others.csv`` has further records of the same kind.
tests/cli/test_help.py runs the examples.
"""

from __future__ import annotations

from collections.abc import Mapping

_TRAINING = "--noise-multiplier 1.1 --sampling-probability 0.00427 --steps 14000"
EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "epsilon": (
        f"tightdp epsilon {_TRAINING} --delta 1e-5",
        "tightdp epsilon --composition 'Gaussian(50.0) * 3 + Laplace(20.0)' --delta 1e-6",
    ),
    "delta": (f"tightdp delta {_TRAINING} --epsilon 2",),
    "calibrate": ("tightdp calibrate --epsilon 2 --delta 1e-5 --sampling-probability 256/60000 --steps 14000",),
    "sweep": ("tightdp sweep --noise-multiplier 0.8:1.2:0.2 --sampling-probability 0.01 --steps 1000 --delta 1e-5",),
    "plot": (
        f"tightdp plot {_TRAINING} --out run.png",
        "tightdp plot --composition 'Gaussian(2.0)' --and 'Laplace(2.0)' --out two.svg",
    ),
    "schema": ("tightdp schema people.csv --label owner",),
    "frequent": ("tightdp frequent people.csv --column owner --epsilon 1 --delta 1e-6",),
    "train": (
        "tightdp train people.csv --label owner --bounds age=18:90,hours=0:60 --classes no,yes \\\n"
        "      --epsilon 1 --delta 1e-5",
    ),
    "predict": ("tightdp predict people.model.json others.csv",),
    "test": ("tightdp test people.model.json others.csv --epsilon 1 --delta 1e-5",),
    "statement": ("tightdp statement people.model.json --out statement.html",),
    "verify": ("tightdp verify people.model.json", "tightdp verify statement.html"),
    "ledger": (
        "tightdp ledger create people.ledger --dataset 'people, survey of 2030' --epsilon 2 --delta 1e-6",
        "tightdp ledger spend people.ledger --composition 'Gaussian(50.0) * 3' --note 'three means'",
        "tightdp ledger show people.ledger",
        "tightdp ledger report people.ledger",
    ),
    "info": ("tightdp info",),
    "completion": ("tightdp completion bash",),
}


def write_command_examples(command: str) -> str:
    """Returns the examples of a command as the text at the end of its help."""
    lines = EXAMPLES[command]
    title = "example" if len(lines) == 1 else "examples"
    return "\n".join([f"{title}:", *(f"  {line}" for line in lines)])
