"""Chooses the class that sums the gradients in each step of a run. The plan of the run decides."""

from __future__ import annotations

from typing import Any

from ...algorithms.adaclip import AdaCliPMoments
from ..batches.importance_loader import ImportanceCandidates
from ..ghost_clipping.clipping import OnePassSums
from ..ghost_clipping.products import ProductSums
from ..gradient_sums.base_sums import GradientSums
from ..gradient_sums.exact_sums import ExactSums
from ..plan.plan import Plan
from .auto_sums import AutoSums
from .centered_sums import CenteredSums
from .importance_sums import ExactUnitSums, OnePassUnitSums

_PLAIN: dict[str, Any] = {"auto": AutoSums, "float": OnePassSums, "products": ProductSums}
"""Classes of sums of clipped gradients, by arithmetic. For all other arithmetics the class is ``ExactSums``."""


class StepSumMaker:
    """A maker of the sums of a run.

    ``moments``, the centre and scale of gradients, is None except for AdaCliP. ``candidates``, the draws of records by
    their norms, is None except for DPIS.
    """

    def __init__(self, plan: Plan, moments: AdaCliPMoments | None, candidates: ImportanceCandidates | None) -> None:
        self._plan, self._moments, self._candidates = plan, moments, candidates

    def make_plain_step_sums(self, parameters: dict[str, Any]) -> GradientSums:
        """Returns sums of clipped gradients, whatever the algorithm is."""
        made: GradientSums = _PLAIN.get(self._plan.arithmetic, ExactSums)(self._plan, parameters)
        return made

    def make_step_sums(self, parameters: dict[str, Any]) -> GradientSums:
        """Returns the sums that a step of the algorithm adds to."""
        if self._moments is not None:
            return CenteredSums(self._plan, parameters, self._moments)
        if self._candidates is not None:
            exact = self._plan.arithmetic in ("exact", "one-by-one")
            return (ExactUnitSums if exact else OnePassUnitSums)(self._plan, parameters, self._candidates)
        return self.make_plain_step_sums(parameters)
