"""Settings of a training loss that a run may release, and the noise multipliers that it takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ... import _check
from ...release import clipping

_UPWARD = 1 + 2.0**-40
"""Factor on both multipliers, larger than the roundings of their roots, quotients and products together."""


@dataclass(frozen=True)
class LossRelease:
    """Releases the mean training loss with noise, within the charge of the run.

    Parameters
    ----------
    bound : each record's loss is clipped to [-bound, bound]; in [1e-30, 1e30]
    share : of what a step is charged, in (0, 1), for the loss. The noise on gradients grows by 1 / sqrt(1 - share). The
        noise on a step's sum of losses has the deviation noise_multiplier * bound / sqrt(share)
    every : over how many steps the mean is taken; None for an epoch

    >>> LossRelease(5.0, share=0.1).loss_multiplier(1.0) > 3.16
    True
    """

    bound: float
    share: float = 0.02
    every: int | None = None

    def __post_init__(self) -> None:
        clipping.exact_bound("bound", self.bound)
        _check.open_unit("share", self.share)
        if self.every is not None:
            _check.count("every", self.every)

    def gradient_multiplier(self, noise_multiplier: float) -> float:
        """Returns the noise multiplier of the gradients if ``noise_multiplier`` is charged for both sums together."""
        return noise_multiplier / math.sqrt(1 - self.share) * _UPWARD

    def loss_multiplier(self, noise_multiplier: float) -> float:
        """Returns the noise multiplier of the losses if ``noise_multiplier`` is charged for both sums together."""
        return noise_multiplier / math.sqrt(self.share) * _UPWARD
