"""tightdp epsilon: bounds on epsilon at a given delta."""

from .composition import make_bound_command

add_command_arguments, run_command = make_bound_command("epsilon", at="delta")
