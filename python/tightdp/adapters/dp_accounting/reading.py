"""The way in which an event is read: its neighbouring relation, and the bound that its noise is relative to.

dp_accounting's own accountants differ in this bound. In ``PLDAccountant``, noise is relative to the bound on one
record's contribution, and REPLACE_ONE changes two contributions. In ``RdpAccountant``, noise is relative to the
sensitivity under the relation.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from dp_accounting import NeighboringRelation

from ... import _check
from ...options import Neighbors

ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = NeighboringRelation.REPLACE_ONE
SPECIAL = NeighboringRelation.REPLACE_SPECIAL

NEIGHBORS: dict[Any, Neighbors] = {ADD_OR_REMOVE: "add_or_remove", REPLACE: "replace", SPECIAL: "replace_special"}

Unit = Literal["contribution", "sensitivity", "clipped_sum"]
UNITS = "contribution", "sensitivity", "clipped_sum"


class Reading(NamedTuple):
    """A relation and a unit of noise.

    Mechanisms of this library have noise relative to one contribution: ``convert_to_contribution`` converts to it.

    - "contribution": the bound on one record's contribution, as ``dp_event`` defines noise multipliers.
    - "sensitivity": the sensitivity of the query under the relation. Nothing is known of single contributions.
    - "clipped_sum": the sensitivity of a sum of bounded contributions, twice their bound under REPLACE_ONE.
    - None: "sensitivity" on a sample of fixed size, as ``RdpAccountant`` alone knows that event, else "contribution".
    """

    relation: Any
    unit: Unit | None = None

    @classmethod
    def check_and_make(cls, relation: Any, unit: Any) -> Reading:
        if not isinstance(relation, NeighboringRelation) or relation not in NEIGHBORS:
            raise ValueError(f"neighboring_relation must be a NeighboringRelation, got {relation!r}")
        if unit is not None:
            _check.choice("noise_relative_to", unit, UNITS)
        return cls(relation, unit)

    @property
    def is_relative_to_doubled(self) -> bool:
        """True if noise is relative to twice the bound on one contribution."""
        return self.relation == REPLACE and self.unit in ("sensitivity", "clipped_sum")

    def convert_to_contribution(self, noise: float) -> float:
        """Returns ``noise`` relative to one contribution.

        A query of sensitivity D may be taken for one of contributions of D/2, because its pair depends on the
        difference alone (docs/theory/conversions.md section 1).
        """
        return min(2 * noise, _check.LARGEST) if self.is_relative_to_doubled else noise

    def read_at_fixed_size(self) -> Reading:
        """Returns the reading of noise on a sample of fixed size.

        The pair of such a sample is that of any two samples that differ in one record (docs/theory/grid.md section
        6.2), so that only the sensitivity is needed.
        """
        return self._replace(unit="sensitivity") if self.unit is None else self

    def check_contributions(self, event: Any) -> None:
        """Raises ValueError for a sample whose size varies if only a sensitivity under REPLACE_ONE is known.

        A record that is not drawn leaves an output that may be farther from the others than half of the sensitivity.
        """
        if self.relation == REPLACE and self.unit == "sensitivity":
            raise ValueError(
                f"neighboring_relation must be `ADD_OR_REMOVE_ONE` or `REPLACE_SPECIAL` for `{type(event).__name__}` "
                f"where noise is relative to the sensitivity. Found {self.relation}."
            )
