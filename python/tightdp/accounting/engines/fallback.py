"""The last engine of "auto". It bounds a composition from below by bounds for parts of the composition.

A part releases less than the whole composition, so a lower bound for the part holds for the composition too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...composition import Parts
from ...mechanisms import Gaussian
from ..pairs.class_members import list_dominated_samples
from .engine_interface import DEFAULT, Bound, Direction, Engine, Request


class Fallback:
    """An engine that serves every composition. Its upper end is infinite for epsilon, and 1 for delta.

    ``engines`` are engines that answer within milliseconds for any number of steps. Each part of the composition is
    bounded by the first engine that serves the part.
    """

    name = "fallback"

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = engines

    def explain_refusal(self, parts: Parts, direction: Direction) -> str | None:
        return None

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Bound:
        lower = self._find_fallback_engine_lower_end(
            parts, direction, lambda engine, part: engine.epsilon(part, direction, delta)
        )
        return Bound(lower, float("inf"), self.name)

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Bound:
        lower = self._find_fallback_engine_lower_end(
            parts, direction, lambda engine, part: engine.delta(part, direction, epsilon)
        )
        return Bound(lower, 1.0, self.name)

    def _find_fallback_engine_lower_end(
        self, parts: Parts, direction: Direction, ask: Callable[[Engine, Parts], Bound]
    ) -> float:
        """Returns the largest lower end over the compositions below ``parts`` that an engine serves.

        The compositions are those of ``_list_parts_for_fallback_engine``.
        """
        lowers = [0.0]
        for candidate in self._list_parts_for_fallback_engine(parts, direction):
            engine = self._find_engine_for_fallback(candidate, direction)
            if engine is not None:
                lowers.append(ask(engine, candidate).lower)
        return max(lowers)

    def _find_engine_for_fallback(self, parts: Parts, direction: Direction) -> Engine | None:
        """Returns the first engine that serves the composition."""
        return next((engine for engine in self._engines if engine.explain_refusal(parts, direction) is None), None)

    def _list_parts_for_fallback_engine(self, parts: Parts, direction: Direction) -> list[Parts]:
        """Returns compositions that ``parts`` dominate: all Gaussians together, and each mechanism of another type
        alone.

        A mechanism with its whole count is one of the compositions if an engine serves it. The mechanism with count 1
        is listed as well, unless the first engine serves the whole count. The first engine has the narrowest bounds, so
        count 1 could not improve on them. A mixture of Gaussians dominates some sampled Gaussians. Each of them,
        composed with the plain Gaussians, takes the place of the mixture.
        """
        gaussians = tuple(part for part in parts if isinstance(part[0], Gaussian))
        others = [part for part in parts if not isinstance(part[0], Gaussian)][:_MOST_PARTS]
        candidates: list[Parts] = [gaussians] if gaussians else []
        for mechanism, count in others:
            if samples := list_dominated_samples(mechanism):
                candidates.extend(((sample, count), *gaussians) for sample in samples)
                continue
            whole: Parts = ((mechanism, count),)
            serving = self._find_engine_for_fallback(whole, direction)
            if serving is not None:
                candidates.append(whole)
            if serving is not self._engines[0]:
                candidates.append(((mechanism, 1),))
        return candidates


_MOST_PARTS = 16
"""Largest number of parts, other than Gaussians, for which bounds are computed."""
