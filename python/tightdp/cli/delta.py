"""tightdp delta: bounds on delta at a given epsilon."""

from .composition import asking

add_arguments, run = asking("delta", at="epsilon")
