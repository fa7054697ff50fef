"""Our accountant for jax_privacy, for its plans, its calibrators and its training accountants.

BandMFExecutionPlanConfig(..., accountant=jax_privacy.accountant())  # 2.0
config.calibrate(epsilon=1.0, delta=1e-5, accountant_fn=jax_privacy.accountant)  # later versions
DpsgdTrainingAccountant(jax_privacy.TightDPAccountantConfig())  # 2.0

As in jax_privacy, noise multipliers are relative to the sensitivity of a sum of gradients that are clipped to norm C.
Under REPLACE_ONE, this sensitivity is 2 C.
"""

from __future__ import annotations

from typing import Any

import jax_privacy.accounting
from dp_accounting import NeighboringRelation

from .dp_accounting import TightDPAccountant

__all__ = ["TightDPAccountantConfig", "accountant"]

_Config: Any = getattr(jax_privacy.accounting, "PldAccountantConfig", None)
"""jax_privacy's configuration of an accountant; None in later versions, which have no training accountants either."""


def accountant(neighboring_relation: Any = NeighboringRelation.REPLACE_SPECIAL) -> TightDPAccountant:
    """Returns a fresh accountant under jax_privacy's default relation, or the one that its calibrators ask for."""
    return TightDPAccountant(neighboring_relation, noise_relative_to="clipped_sum")


if _Config is None:

    def __getattr__(name: str) -> Any:
        if name == "TightDPAccountantConfig":
            raise AttributeError(
                "TightDPAccountantConfig is for jax_privacy 2.0, and the installed version has no PldAccountantConfig: "
                "pass accountant to accountant_fn instead"
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    __all__.remove("TightDPAccountantConfig")
else:

    class TightDPAccountantConfig(_Config):
        """Takes the place of ``PldAccountantConfig``; its ``value_discretization_interval`` changes no epsilon."""

        __slots__ = ()

        def create_accountant(self) -> TightDPAccountant:
            """Returns a fresh accountant for adding or removing an example, as jax_privacy's configurations do."""
            return TightDPAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, self.value_discretization_interval)
