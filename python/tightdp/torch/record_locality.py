"""How far one record moves the sums before noise, by trying: what the account takes to be at most the norm bound."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .places import Places, Rows
from .plan import Plan
from .record_reader import Part

ROUNDING, LAST_BITS = 2.0**-10, 2.0**-20
"""Of float sums, and of single gradients, whose last bits may depend on what stands beside them."""


@dataclass(frozen=True)
class Audit:
    """What ``PrivateRun.audit`` found, in units of the norm bound.

    ``moved`` says for each record that was tried how far the sums with it are from those without it, at most 1 where
    the account is right. ``kept`` says how far the sums without it are from themselves after it was there: 0 unless
    something was kept of it. Both are as private as the records.
    """

    moved: tuple[float, ...]
    kept: tuple[float, ...]
    arithmetic: str

    @property
    def ok(self) -> bool:
        """Whether no record moved the sums by more than the account says, and none was kept."""
        slack = ROUNDING if self.arithmetic == "float" else LAST_BITS
        return max(self.moved) <= 1 + slack and max(self.kept) <= slack

    def __str__(self) -> str:
        worst = f"one record moved the sums by up to {max(self.moved):.4g} norm bounds, where 1 is accounted for"
        kept = f"and what it left by {max(self.kept):.4g}"
        return f"{worst}, {kept}: {'as it should be' if self.ok else 'the guarantee does not hold'}"


def audit_records(
    read: Callable[[Rows], list[Part]],
    take: Callable[[list[Part], list[Places | None]], list[Any]],
    plan: Plan,
    rows: Rows,
    tried: int,
) -> Audit:
    """``read`` makes parts of rows, each with its own coins; ``take`` adds up what a model makes of parts, with coins
    that depend on the place of a record in its part alone."""
    moved, kept = [], []
    aligned = plan.arithmetic in ("auto", "exact", "products")
    for i in range(tried):
        others = np.delete(rows, len(rows) - 1 - i)
        everyone = np.append(others, rows[len(rows) - 1 - i])  # the record that is tried stands last
        without, among = read(others), read(everyone)
        places = _align_places(without, among if aligned else [])
        before = take(without, places)
        there = take(among, _align_places(among, []))
        after = take(read(others), places)
        moved.append(_distance_in_bounds(plan, before, there))
        kept.append(_distance_in_bounds(plan, before, after))
    return Audit(tuple(moved), tuple(kept), plan.arithmetic)


def _align_places(parts: list[Part], others: list[Part]) -> list[Places | None]:
    """An empty place where the other part has one record more: so each record draws what it draws beside it."""
    sizes = itertools.zip_longest((n for _, n in parts), (n for _, n in others[: len(parts)]))
    return [Places(np.arange(n), m) if m == n + 1 else None for n, m in sizes]


def _distance_in_bounds(plan: Plan, one: list[Any], other: list[Any]) -> float:
    """The largest L2 distance of sums over its norm bound."""
    squares = [float((a - b).square().sum()) for a, b in zip(one, other, strict=True)]
    if len(plan.max_norm) == 1:
        return math.sqrt(sum(squares)) / plan.max_norm[0]
    return max(math.sqrt(square) / bound for square, bound in zip(squares, plan.max_norm, strict=True))
