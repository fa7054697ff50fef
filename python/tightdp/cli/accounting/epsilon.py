"""tightdp epsilon: bounds on epsilon at a given delta."""

from .composition import make_bound_command

add_arguments, run = make_bound_command("epsilon", at="delta")
