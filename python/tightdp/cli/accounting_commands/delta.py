"""tightdp delta: bounds on delta at a given epsilon."""

from .composition import make_bound_command

add_command_arguments, run_command = make_bound_command("delta", at="epsilon")
