"""The exact sums of AdaCliP, which centres and scales gradients coordinate by coordinate before it clips them.

The centre and the scale follow from running moments: means and variances of the coordinates, estimated from past
releases as in ``tightdp.train`` (docs/theory/adaclip.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from ...algorithms.adaclip import AdaCliP, AdaCliPMoments
from ...clipping_and_noise.noise import RandomSource
from ..gradient_sums.exact_sums import ExactSums
from ..plan.plan import Plan


def make_moments_of_centered_sums(plan: Plan, size: int) -> AdaCliPMoments:
    """Returns the running moments of a run whose parameters have ``size`` numbers."""
    assert isinstance(plan.settings, AdaCliP)
    q = plan.sampling_probability
    return AdaCliPMoments(plan.settings, size, q * plan.records, q, plan.gradient_multiplier)


class MomentsState:
    """The part of a run's saved state that has the running moments. They are learned from releases alone."""

    def __init__(self, moments: AdaCliPMoments) -> None:
        self._moments = moments

    def export_state(self) -> dict[str, Any]:
        """Returns tensors with copies of the centre and the variance."""
        now = self._moments
        return {"center": torch.from_numpy(now.center.copy()), "variance": torch.from_numpy(now.variance.copy())}

    def check_state_of_sums(self, given: Any) -> None:
        """Raises ValueError unless ``given`` has finite moments, one for each trained number."""
        for name, expected in self.export_state().items():
            found = given.get(name) if isinstance(given, dict) else None
            if not isinstance(found, torch.Tensor) or found.shape != expected.shape or found.dtype != expected.dtype:
                raise ValueError(f"state must hold the {name} that AdaCliP learned, {len(expected)} numbers in float64")
            if not bool(torch.isfinite(found).all()):
                raise ValueError(f"state must hold a finite {name}")

    def import_state_of_sums(self, given: Any) -> None:
        """Restores the state that ``export_state`` returned."""
        self.check_state_of_sums(given)
        now = self._moments
        now.center, now.variance = (given[name].cpu().numpy().copy() for name in ("center", "variance"))


class CenteredSums(ExactSums):
    """The integer sums of clip((g - center) / scale, 1) over the gradients g of records.

    clip(x, 1) shortens x to the norm 1 if it is longer. The division is coordinate by coordinate.
    """

    def __init__(self, plan: Plan, parameters: dict[str, Any], learned: AdaCliPMoments) -> None:
        super().__init__(plan, parameters)
        self._moments = learned

    def clear_gradient_sums(self) -> None:
        super().clear_gradient_sums()
        self._center, self._scale = self._moments.center.copy(), self._moments.gradient_scale

    def _add_clipped_to_gradient_sums(self, rows: list[Any], weights: Any = None) -> None:
        self._clip_and_add_to_gradient_sums(rows, 1.0, weights=weights, center=self._center, scale=self._scale)

    def release_mean_gradient(self, source: RandomSource) -> Iterable[Any]:
        return self._release_gradient_sums_on_host(source)  # the moments are in host memory

    def estimate_mean_gradient(self, totals: list[Any]) -> list[Any]:
        """Returns the estimated mean gradient of each parameter, and updates the moments. Call this once a step."""
        noisy = np.concatenate([total.numpy().reshape(-1) for total in totals]) * self._plan.planned_grid_step
        gradient = torch.from_numpy(self._moments.learn_adaclip_moments(self._scale * noisy))
        parts = torch.split(gradient, [total.numel() for total in totals])
        return [part.view(total.shape) for part, total in zip(parts, totals, strict=True)]
