"""tightdp delta: bounds on delta at a given epsilon."""

from __future__ import annotations

import argparse
from typing import Any

from . import composition as shared


def add_parser(commands: Any) -> None:
    """Adds ``delta`` to the subcommands."""
    p = commands.add_parser("delta", description=__doc__)
    shared.add_training(p)
    p.add_argument("--epsilon", type=float, required=True)
    shared.add_options(p)
    p.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the bounds."""
    run = shared.composition(arguments)
    bound = run.delta(arguments.epsilon, **shared.options(arguments))
    shared.report(arguments, bound, "delta", {"epsilon": arguments.epsilon}, run)
    return 0
