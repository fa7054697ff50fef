"""Settings for releasing the training loss of a run, and the noise multipliers of losses and gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..._support import _check
from ...clipping_and_noise import clipping

_UPWARD = 1 + 2.0**-40
"""Factor that raises both noise multipliers by more than the rounding errors of computing and using them."""


@dataclass(frozen=True)
class LossRelease:
    """The settings for releasing the mean training loss with noise, within the charge of the run.

    Parameters
    ----------
    bound : bound on one record's loss, in [1e-30, 1e30]. The loss of each record is clipped to [-bound, bound].
    share : the fraction of each step's charge that the loss gets, in (0, 1). The noise on gradients grows by the factor
        1 / sqrt(1 - share). The noise on a step's sum of losses has the standard deviation
        noise_multiplier * bound / sqrt(share).
    every : number of steps over which a mean is taken. None takes the mean over the steps of an epoch.

    Raises ValueError for a number out of its range.

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
            _check.check_count_argument("every", self.every)

    def gradient_multiplier(self, noise_multiplier: float) -> float:
        """Returns the noise multiplier of gradients, if a step that releases gradients and losses is charged for
        ``noise_multiplier``."""
        return noise_multiplier / math.sqrt(1 - self.share) * _UPWARD

    def loss_multiplier(self, noise_multiplier: float) -> float:
        """Returns the noise multiplier of losses, if a step that releases gradients and losses is charged for
        ``noise_multiplier``."""
        return noise_multiplier / math.sqrt(self.share) * _UPWARD
