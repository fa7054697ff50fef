"""tightdp calibrate: the smallest noise multiplier whose upper bound of epsilon meets the target."""

from __future__ import annotations

import argparse

from ..._support.number_texts import format_up
from ...accounting.questions.calibration import noise_multiplier
from . import composition as shared
from .number import parse_real_argument


def add_command_arguments(p: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    p.add_argument("--epsilon", type=parse_real_argument, required=True, help="target in nats, > 0, as 2")
    p.add_argument("--delta", type=parse_real_argument, required=True, help="in (0, 1), as 1e-5")
    shared.add_composition_arguments(p, noise=False)
    shared.add_bound_arguments(p)


def run_command(arguments: argparse.Namespace) -> int:
    """Prints the noise multiplier and the bounds on epsilon for this noise multiplier."""
    asked = shared.get_question_arguments(arguments)
    sigma = noise_multiplier(arguments.epsilon, arguments.delta, *shared.get_sampling_arguments(arguments), **asked)
    run = shared.build_training_from_arguments(arguments, sigma)
    given = {"delta": arguments.delta}
    if arguments.json:
        given |= {"noise_multiplier": sigma, "target_epsilon": arguments.epsilon}
    else:
        print(f"noise multiplier = {format_up(sigma)}")
    shared.print_bound_of_command(arguments, run.epsilon(arguments.delta, **asked), "epsilon", given, run)
    return 0
