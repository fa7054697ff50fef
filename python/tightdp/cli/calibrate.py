"""tightdp calibrate: the smallest noise multiplier whose upper bound of epsilon meets the target."""

from __future__ import annotations

import argparse
from typing import Any

from ..accounting.calibrate import noise_multiplier
from ..mechanisms import Gaussian, PoissonSampled
from . import composition as shared


def add_parser(commands: Any) -> None:
    """Adds ``calibrate`` to the subcommands."""
    p = commands.add_parser("calibrate", description=__doc__)
    p.add_argument("--epsilon", type=float, required=True)
    p.add_argument("--delta", type=float, required=True)
    shared.add_training(p, noise=False)
    shared.add_options(p)
    p.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the noise multiplier and its bounds."""
    q = 1.0 if arguments.sampling_probability is None else arguments.sampling_probability
    steps = 1 if arguments.steps is None else arguments.steps
    asked = shared.options(arguments)
    sigma = noise_multiplier(arguments.epsilon, arguments.delta, q, steps, **asked)
    run = PoissonSampled(Gaussian(sigma), q) * steps
    given = {"delta": arguments.delta}
    if arguments.json:
        given |= {"noise_multiplier": sigma, "target_epsilon": arguments.epsilon}
    else:
        print(f"noise multiplier = {sigma!r}")
    shared.report(arguments, run.epsilon(arguments.delta, **asked), "epsilon", given, run)
    return 0
