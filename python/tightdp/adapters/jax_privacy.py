"""tightdp's accountant for the plans, the calibrators and the training accountants of jax_privacy.

BandMFExecutionPlanConfig(..., accountant=jax_privacy.accountant())  # 2.0
config.calibrate(epsilon=1.0, delta=1e-5, accountant_fn=jax_privacy.accountant)  # later versions
DpsgdTrainingAccountant(jax_privacy.TightDPAccountantConfig())  # 2.0

As in jax_privacy, noise multipliers are relative to the sensitivity of a sum of gradients. If the gradients are clipped
to norm C, this sensitivity is 2 C under REPLACE_ONE, and C under the other relations.
"""

from __future__ import annotations

from typing import Any

import jax_privacy.accounting
from dp_accounting import NeighboringRelation

from .dp_accounting import TightDPAccountant

__all__ = ["TightDPAccountantConfig", "accountant"]

_Config: Any = getattr(jax_privacy.accounting, "PldAccountantConfig", None)
"""jax_privacy's configuration of an accountant. It is None for versions after 2.0, which have neither such
configurations nor training accountants."""


def accountant(neighboring_relation: Any = NeighboringRelation.REPLACE_SPECIAL) -> TightDPAccountant:
    """Returns a new accountant. jax_privacy's calibrators pass the relation. The default relation is jax_privacy's.

    ``neighboring_relation`` is a ``dp_accounting.NeighboringRelation``. Raises ValueError for anything else. The
    accountant's methods raise errors about events.

    >>> import dp_accounting
    >>> from tightdp.adapters import jax_privacy
    >>> jax_privacy.accountant().compose(dp_accounting.GaussianDpEvent(4.0)).get_epsilon(1e-5) < 1.0
    True
    """
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
        """A replacement of ``PldAccountantConfig``, in which ``value_discretization_interval`` does not change epsilon.

        The class exists if jax_privacy 2.0 is installed. ``create_accountant`` raises ValueError for an interval that
        is not positive.

        >>> from tightdp.adapters import jax_privacy
        >>> jax_privacy.TightDPAccountantConfig().create_accountant()  # doctest: +SKIP
        """

        __slots__ = ()

        def create_accountant(self) -> TightDPAccountant:
            """Returns a new accountant for adding or removing an example, as jax_privacy's configurations do."""
            return TightDPAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, self.value_discretization_interval)
