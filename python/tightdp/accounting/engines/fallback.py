"""The last engine of "auto": lower bounds from parts of a composition, since releasing less reveals no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...composition import Parts
from ...mechanisms import Gaussian
from ..pairs.members import list_dominated_samples
from .engine_interface import DEFAULT, Bound, Direction, Engine, Request


class Fallback:
    """An engine that serves every composition. Its upper end is infinite for epsilon, and 1 for delta.

    ``engines`` are engines that answer within milliseconds for any number of steps. The first one that serves a part of
    the composition is asked about this part.
    """

    name = "fallback"

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = engines

    def explain_refusal(self, parts: Parts, direction: Direction) -> str | None:
        return None

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Bound:
        lower = self._find_largest_lower_end(
            parts, direction, lambda engine, part: engine.epsilon(part, direction, delta)
        )
        return Bound(lower, float("inf"), self.name)

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Bound:
        lower = self._find_largest_lower_end(
            parts, direction, lambda engine, part: engine.delta(part, direction, epsilon)
        )
        return Bound(lower, 1.0, self.name)

    def _find_largest_lower_end(
        self, parts: Parts, direction: Direction, ask: Callable[[Engine, Parts], Bound]
    ) -> float:
        """Returns the largest lower end over all compositions that ``parts`` dominate and that an engine serves."""
        lowers = [0.0]
        for candidate in self._list_dominated_compositions(parts, direction):
            engine = self._find_engine_that_serves(candidate, direction)
            if engine is not None:
                lowers.append(ask(engine, candidate).lower)
        return max(lowers)

    def _find_engine_that_serves(self, parts: Parts, direction: Direction) -> Engine | None:
        """Returns the first engine that serves the composition."""
        return next((engine for engine in self._engines if engine.explain_refusal(parts, direction) is None), None)

    def _list_dominated_compositions(self, parts: Parts, direction: Direction) -> list[Parts]:
        """Returns compositions that ``parts`` dominate: all Gaussians together, and each other mechanism by itself.

        A mechanism is taken with its whole count if an engine serves this count. It is taken with count 1 too, unless
        the engine is the first one, whose bounds are the narrowest. A mixture of Gaussians is replaced by each sampled
        Gaussian that the mixture dominates, composed with the plain Gaussians.
        """
        gaussians = tuple(part for part in parts if isinstance(part[0], Gaussian))
        others = [part for part in parts if not isinstance(part[0], Gaussian)][:_MOST_PARTS]
        candidates: list[Parts] = [gaussians] if gaussians else []
        for mechanism, count in others:
            if samples := list_dominated_samples(mechanism):
                candidates.extend(((sample, count), *gaussians) for sample in samples)
                continue
            whole: Parts = ((mechanism, count),)
            serving = self._find_engine_that_serves(whole, direction)
            if serving is not None:
                candidates.append(whole)
            if serving is not self._engines[0]:
                candidates.append(((mechanism, 1),))
        return candidates


_MOST_PARTS = 16
"""Largest number of parts other than Gaussians that are asked about."""
