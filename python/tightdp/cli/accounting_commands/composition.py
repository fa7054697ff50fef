"""Parts that the accounting commands share: options for the composition and the bound, and the printing of a bound.

The options of the bound are the neighbouring relation, the engine and the accuracy.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from typing import Any

from ..._support import _check
from ..._support.number_texts import format_down, format_up
from ...accounting.engines.auto import NAMES
from ...bound import Bound
from ...composition import Composition
from ...mechanisms import Gaussian, PoissonSampled
from ...options import DELTA_ERROR, EPS_ERROR, NEIGHBORS, WIDTH
from .expression import parse_composition_text
from .number import parse_integer_argument, parse_real_argument

DIGITS = ".12g"
"""Format in which the ends of bounds are printed. A lower end is rounded down, and an upper end is rounded up."""


NEIGHBORS_HELP = "what one record more or less is: which pairs of data sets must look alike (default: %(default)s)"


def add_composition_arguments(parser: argparse.ArgumentParser, noise: bool = True) -> None:
    """Adds the options that describe DP-SGD: the sampling probability and the number of steps.

    If ``noise`` is true, also adds the option of the noise multiplier, and an option that describes any other
    composition instead of DP-SGD.
    """
    if noise:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument(
            "--noise-multiplier",
            type=parse_real_argument,
            metavar="SIGMA",
            help="standard deviation of the Gaussian noise over the L2 norm, > 0 (default: none)",
        )
        what.add_argument(
            "--composition",
            metavar="EXPRESSION",
            help="any composition, as in 'PoissonSampled(Gaussian(1.0), 0.01) * 1000 + Laplace(20.0)' (default: none)",
        )
    parser.add_argument(
        "--sampling-probability",
        type=parse_real_argument,
        metavar="Q",
        help="probability of each record to be in a Poisson batch, in (0, 1] (default: 1)",
    )
    parser.add_argument(
        "--steps", type=parse_integer_argument, metavar="K", help="number of releases, an integer >= 1 (default: 1)"
    )


def add_bound_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the bound, and --json."""
    add_question_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON; an infinite bound is null")


def add_question_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the bound."""
    parser.add_argument(
        "--neighbors",
        choices=NEIGHBORS,
        default="add_or_remove",
        help=NEIGHBORS_HELP,
    )
    parser.add_argument(
        "--engine", choices=("auto", *NAMES), default="auto", help="what computes the bound (default: %(default)s)"
    )
    parser.add_argument(
        "--width", type=parse_real_argument, default=WIDTH, help="relative width aimed at (default: %(default)s)"
    )
    prv = parser.add_argument_group("of --engine prv alone")
    prv.add_argument(
        "--eps-error",
        type=parse_real_argument,
        default=EPS_ERROR,
        help="largest error in epsilon, > 0 (default: %(default)s)",
    )
    prv.add_argument(
        "--delta-error",
        type=parse_real_argument,
        default=DELTA_ERROR,
        help="largest error in delta, > 0 (default: %(default)s)",
    )


def build_composition_from_arguments(arguments: argparse.Namespace) -> Composition:
    """Returns the composition that the arguments describe."""
    if arguments.composition is not None:
        if arguments.sampling_probability is not None or arguments.steps is not None:
            raise ValueError("--composition: write the sampling probability and the number of steps into it")
        return parse_composition_text(arguments.composition)
    return build_training_from_arguments(arguments, arguments.noise_multiplier)


def build_training_from_arguments(arguments: argparse.Namespace, noise_multiplier: float) -> Composition:
    """Returns the composition of DP-SGD with this noise multiplier."""
    q, steps = get_sampling_arguments(arguments)
    return PoissonSampled(Gaussian(noise_multiplier), q) * _check.check_count_argument("steps", steps)


def get_sampling_arguments(arguments: argparse.Namespace) -> tuple[float, int]:
    """Returns the sampling probability and the number of steps."""
    q, steps = arguments.sampling_probability, arguments.steps
    return 1.0 if q is None else q, 1 if steps is None else steps


def make_bound_command(
    quantity: str, at: str
) -> tuple[Callable[[argparse.ArgumentParser], None], Callable[[Any], int]]:
    """Returns the functions ``add_command_arguments`` and ``run_command`` of a command.

    The command bounds ``quantity`` for a given value of ``at``. ``quantity`` is "epsilon" and ``at`` is "delta", or the
    other way round.
    """

    def add_command_arguments(p: argparse.ArgumentParser) -> None:
        """Adds the options of the command."""
        add_composition_arguments(p)
        p.add_argument(f"--{at}", type=parse_real_argument, required=True, help=_GIVEN_HELP[at])
        add_bound_arguments(p)

    def run_command(arguments: argparse.Namespace) -> int:
        asked, given = build_composition_from_arguments(arguments), getattr(arguments, at)
        bound = getattr(asked, quantity)(given, **get_question_arguments(arguments))
        print_bound_of_command(arguments, bound, quantity, {at: given}, asked)
        return 0

    return add_command_arguments, run_command


# Help texts of --delta and --epsilon. Each of these options gives the value at which the other quantity is bounded.
_GIVEN_HELP = {"delta": "in [0, 1), as 1e-5", "epsilon": "any number, as 2"}


def get_question_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the options of the bound as keyword arguments."""
    names = ("neighbors", "engine", "width", "eps_error", "delta_error")
    return {name: getattr(arguments, name) for name in names}


def print_bound_of_command(
    arguments: argparse.Namespace, bound: Bound, quantity: str, given: dict[str, float], run: object
) -> None:
    """Prints the bound on ``quantity`` for the composition ``run`` at the ``given`` values, as text or as JSON."""
    if arguments.json:
        plain = {**bound.to_dict(), **given, "neighbors": arguments.neighbors, "composition": repr(run)}
        print(json.dumps(plain, allow_nan=False))
        return
    at = ", ".join(f"{name} = {value!r}" for name, value in given.items())
    print(f"{quantity} <= {format_up(bound.upper, DIGITS)}   at {at}")
    print(
        f"{quantity} >= {format_down(bound.lower, DIGITS)}   (engine {bound.engine}, neighbors {arguments.neighbors})"
    )
    for name, term in bound.error_budget.items():
        print(f"    {name}: {format_up(term, '.2g')}")
    if math.isinf(bound.lower):
        print(f"{quantity} is infinite. --json prints it as null.")
    elif math.isinf(bound.upper):
        print("No finite upper bound is known, or affordable. --json prints it as null.")
