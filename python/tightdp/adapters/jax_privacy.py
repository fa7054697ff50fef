"""Our accountant for jax_privacy: for plans, for calibrators and for its training accountants.

BandMFExecutionPlanConfig(..., accountant=jax_privacy.accountant())  # 2.0
config.calibrate(epsilon=1.0, delta=1e-5, accountant_fn=jax_privacy.accountant)  # later versions
DpsgdTrainingAccountant(jax_privacy.TightDPAccountantConfig())
"""

from __future__ import annotations

from typing import Any

from dp_accounting import NeighboringRelation
from jax_privacy.accounting import PldAccountantConfig

from .dp_accounting import TightDPAccountant

__all__ = ["TightDPAccountantConfig", "accountant"]


def accountant(neighboring_relation: Any = NeighboringRelation.REPLACE_SPECIAL) -> TightDPAccountant:
    """A fresh accountant under jax_privacy's default relation, or the one that its calibrators ask for."""
    return TightDPAccountant(neighboring_relation)


class TightDPAccountantConfig(PldAccountantConfig):
    """Takes the place of ``PldAccountantConfig``; its ``value_discretization_interval`` changes no epsilon."""

    __slots__ = ()

    def create_accountant(self) -> TightDPAccountant:
        """A fresh accountant for adding or removing an example, as jax_privacy's configurations make it."""
        return TightDPAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, self.value_discretization_interval)
