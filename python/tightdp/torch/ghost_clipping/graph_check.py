"""Checks that the losses depend on the parameters only through the recorded calls."""

from __future__ import annotations

from typing import Any

from ..model_checks.self_test import yield_graph_nodes_for_self_test
from .recorder import RecordedCall


def check_recorded_calls_complete(losses: Any, parameters: dict[str, Any], calls: list[RecordedCall]) -> None:
    """Raises ValueError unless the recorded calls account for the whole gradient.

    The function follows every path from the losses to a parameter in PyTorch's graph. A path without a recorded call
    shows that a use of the parameter was missed, such as a tensor that was computed from it earlier. The result does
    not depend on values or roundings. Privacy does not rely on this check, because a use that was not recorded adds
    nothing to the sum of gradients.
    """
    names = {id(p): name for name, p in parameters.items()}
    before = {call.edge.node: call.before for call in calls}
    for node in yield_graph_nodes_for_self_test(losses, before):
        name = names.get(id(getattr(node, "variable", None)))  # a leaf node has its tensor as ``variable``
        if name is not None and node not in before:
            raise ValueError(
                f"model must be one that is clipped in one pass: {name} is used in a way that was not seen, such as by "
                'a tensor that was made of it before, or in compiled code. arithmetic="exact" takes more modules, and '
                '"one-by-one" any'
            )
