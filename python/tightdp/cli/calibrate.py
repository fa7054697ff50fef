"""tightdp calibrate: the smallest noise multiplier whose upper bound of epsilon meets the target."""

from __future__ import annotations

import argparse

from ..accounting.calibrate import noise_multiplier
from ..printed import format_up
from . import composition as shared
from .number import number


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--epsilon", type=number, required=True)
    p.add_argument("--delta", type=number, required=True)
    shared.add_training(p, noise=False)
    shared.add_options(p)


def run(arguments: argparse.Namespace) -> int:
    """Prints the noise multiplier and its bounds."""
    asked = shared.options(arguments)
    sigma = noise_multiplier(arguments.epsilon, arguments.delta, *shared.sampling(arguments), **asked)
    run = shared.training(arguments, sigma)
    given = {"delta": arguments.delta}
    if arguments.json:
        given |= {"noise_multiplier": sigma, "target_epsilon": arguments.epsilon}
    else:
        print(f"noise multiplier = {format_up(sigma)}")
    shared.report(arguments, run.epsilon(arguments.delta, **asked), "epsilon", given, run)
    return 0
