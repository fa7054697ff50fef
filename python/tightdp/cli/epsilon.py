"""tightdp epsilon: bounds on epsilon at a given delta."""

from __future__ import annotations

import argparse
from typing import Any

from . import composition as shared


def add_parser(commands: Any) -> None:
    """Adds ``epsilon`` to the subcommands."""
    p = commands.add_parser("epsilon", description=__doc__)
    shared.add_training(p)
    p.add_argument("--delta", type=float, required=True)
    shared.add_options(p)
    p.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the bounds."""
    run = shared.composition(arguments)
    bound = run.epsilon(arguments.delta, **shared.options(arguments))
    shared.report(arguments, bound, "epsilon", {"delta": arguments.delta}, run)
    return 0
