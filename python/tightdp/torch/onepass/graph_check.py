"""Checks that the losses depend on the parameters through the recorded calls alone."""

from __future__ import annotations

from typing import Any

from .recorder import Call


def check_calls_complete(losses: Any, parameters: dict[str, Any], calls: list[Call]) -> None:
    """Raises ValueError unless the recorded calls account for the whole gradient.

    It follows every path of PyTorch's graph from the losses to a parameter. A path that avoids all calls is a use that
    was not recorded, such as one by a tensor that was made of the parameter before. Values and roundings decide
    nothing. Privacy does not rest on this check: a use that was not recorded is not in the sum.
    """
    names = {id(p): name for name, p in parameters.items()}
    before = {call.edge.node: call.before for call in calls}
    ahead, seen = [losses.grad_fn], {None}
    while ahead:
        node = ahead.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in before:
            ahead += before[node]
            continue
        name = names.get(id(getattr(node, "variable", None)))  # of a leaf: the tensor that it stands for
        if name is not None:
            raise ValueError(
                f"model must be one that is clipped in one pass: {name} is used in a way that was not seen, such as by "
                'a tensor that was made of it before, or in compiled code. arithmetic="exact" takes more modules, and '
                '"one-by-one" any'
            )
        ahead += (each for each, _ in node.next_functions)
