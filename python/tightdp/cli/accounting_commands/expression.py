"""Reads compositions from text.

The text of a composition may hold only constructors of mechanisms, ``banded_factorization``, numbers, lists, the text
"poisson", and the operators ``+``, ``*``, ``/`` and unary minus.
"""

from __future__ import annotations

import ast
from typing import Any

from ... import mechanisms
from ...composition import Composable, Composition, Mechanism
from ...mechanisms.selections_and_groups import POISSON

_CONSTRUCTORS: dict[str, Any] = {
    name: value
    for name, value in vars(mechanisms).items()
    if isinstance(value, type) and value not in (Mechanism, mechanisms.PrivacyLoss)
} | {"banded_factorization": mechanisms.banded_factorization}


def parse_composition_text(text: str) -> Composition:
    """Returns the composition that ``text`` describes.

    Raises ValueError with a message of one line if ``text`` describes no composition.

    >>> parse_composition_text("PoissonSampled(Gaussian(1.0), 0.01) * 1000 + 2 * Laplace(20.0)").parts[0]
    (Laplace(noise_multiplier=20.0), 2)
    """
    try:
        value = _evaluate_expression_node(ast.parse(text, mode="eval").body)
    except SyntaxError:
        raise ValueError(f"composition must be written as in 'Gaussian(2.0) * 10', got {text!r}") from None
    except (RecursionError, MemoryError):  # the parser raises MemoryError for too many brackets
        raise ValueError("composition must have fewer terms: write equal terms as one term times a count") from None
    if not isinstance(value, Composable):
        raise ValueError(f"composition must be of mechanisms, got {text!r}")
    return value._to_composition()


def _evaluate_expression_node(node: ast.expr) -> Any:
    """Returns the value of a node of the syntax tree. Raises ValueError for a node that is not accepted."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Constant(value=str() as word) if word == POISSON:
            return word
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return tuple(_evaluate_expression_node(item) for item in items)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate_expression_node(operand)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _evaluate_expression_node(left) + _evaluate_expression_node(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _evaluate_expression_node(left) * _evaluate_expression_node(right)
        case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=int() | float() as below)) if below:
            return _evaluate_expression_node(left) / below
        case ast.Call(func=ast.Name(id=name), args=positional, keywords=named) if name in _CONSTRUCTORS:
            keywords = {
                keyword.arg: _evaluate_expression_node(keyword.value) for keyword in named if keyword.arg is not None
            }
            return _CONSTRUCTORS[name](*(_evaluate_expression_node(argument) for argument in positional), **keywords)
    known = ", ".join(sorted(_CONSTRUCTORS))
    raise ValueError(f"composition must consist of numbers, +, *, / and {known}, got {ast.unparse(node)!r}")
