"""tightdp epsilon: bounds on epsilon at a given delta."""

from .composition import asking

add_arguments, run = asking("epsilon", at="delta")
