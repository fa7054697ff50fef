"""tightdp delta: bounds on delta at a given epsilon."""

from .composition import make_bound_command

add_arguments, run = make_bound_command("delta", at="epsilon")
