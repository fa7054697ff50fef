"""What was released: frozen, hashable values whose repr builds them again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._check import probability, positive

if TYPE_CHECKING:
    from .accounting.bound import Bound
    from .accounting.composition import Composition


class Mechanism:
    """One release. Multiply by a count and add to compose: ``Gaussian(2.0) * 10 + Laplace(1.0)``."""

    __slots__ = ()

    def _composition(self) -> Composition:
        from .accounting.composition import Composition

        return Composition(((self, 1),))

    def __mul__(self, count: int) -> Composition:
        return self._composition() * count

    __rmul__ = __mul__

    def __add__(self, other: Mechanism | Composition) -> Composition:
        return self._composition() + other

    def epsilon(self, delta: float, **options: object) -> Bound:
        return self._composition().epsilon(delta, **options)  # type: ignore[arg-type]

    def delta(self, epsilon: float, **options: object) -> Bound:
        return self._composition().delta(epsilon, **options)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Gaussian(Mechanism):
    """Adds N(0, sigma^2 I) to a vector of bounded L2 norm; ``noise_multiplier`` is sigma over that bound."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise_multiplier", positive("noise_multiplier", self.noise_multiplier))


@dataclass(frozen=True, slots=True)
class PoissonSampled(Mechanism):
    """Runs ``mechanism`` on a batch that holds each record independently with ``sampling_probability``."""

    mechanism: Mechanism
    sampling_probability: float

    def __post_init__(self) -> None:
        q = probability("sampling_probability", self.sampling_probability)
        object.__setattr__(self, "sampling_probability", q)
