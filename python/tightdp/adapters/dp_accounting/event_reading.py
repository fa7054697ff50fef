"""Defines how an event of dp_accounting (``DpEvent``) is read. A reading names the neighbouring relation, and the bound
by which the standard deviation of noise is divided to get the noise multiplier.

dp_accounting's own accountants differ in this bound. In ``PLDAccountant``, noise is relative to the bound on one
record's contribution, and REPLACE_ONE changes two contributions. In ``RdpAccountant``, noise is relative to the
sensitivity under the relation.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from dp_accounting import NeighboringRelation

from ..._support import _check
from ...options import Neighbors

ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = NeighboringRelation.REPLACE_ONE
SPECIAL = NeighboringRelation.REPLACE_SPECIAL

NEIGHBORS: dict[Any, Neighbors] = {ADD_OR_REMOVE: "add_or_remove", REPLACE: "replace", SPECIAL: "replace_special"}

Unit = Literal["contribution", "sensitivity", "clipped_sum"]
UNITS = "contribution", "sensitivity", "clipped_sum"


class EventReading(NamedTuple):
    """A neighbouring relation and the unit of noise multipliers.

    Noise multipliers of this library are relative to one contribution. ``convert_to_dp_accounting_contribution``
    converts from the
    ``unit``, which is one of these:

    - "contribution": the bound on one record's contribution, as ``dp_event`` defines noise multipliers.
    - "sensitivity": the sensitivity of the query under the relation. Nothing is known about single contributions.
    - "clipped_sum": the sensitivity of a sum of bounded contributions. Under REPLACE_ONE this is twice the bound on a
      contribution.
    - None: "sensitivity" for samples of fixed size, which only ``RdpAccountant`` accepts, and otherwise "contribution".
    """

    relation: Any
    unit: Unit | None = None

    @classmethod
    def check_and_make_dp_accounting_reading(cls, relation: Any, unit: Any) -> EventReading:
        if not isinstance(relation, NeighboringRelation) or relation not in NEIGHBORS:
            raise ValueError(f"neighboring_relation must be a NeighboringRelation, got {relation!r}")
        if unit is not None:
            _check.check_choice_argument("noise_relative_to", unit, UNITS)
        return cls(relation, unit)

    @property
    def is_relative_to_doubled(self) -> bool:
        """True if noise is relative to twice the bound on one contribution."""
        return self.relation == REPLACE and self.unit in ("sensitivity", "clipped_sum")

    def convert_to_dp_accounting_contribution(self, noise: float) -> float:
        """Returns ``noise`` relative to one contribution.

        A query of sensitivity D under REPLACE_ONE may be treated as a sum of contributions of at most D/2. The reason
        is that the dominating pair depends only on the difference of two results (docs/theory/conversions.md section
        1).
        """
        return min(2 * noise, _check.LARGEST) if self.is_relative_to_doubled else noise

    def read_event_at_fixed_size(self) -> EventReading:
        """Returns the ``EventReading`` for noise on a sample of fixed size.

        The dominating pair for such a sample is the pair for two samples that differ in one record
        (docs/theory/grid.md section 6.2). So the account needs only the sensitivity, and no bound on one contribution.
        """
        return self._replace(unit="sensitivity") if self.unit is None else self

    def check_dp_accounting_contributions(self, event: Any) -> None:
        """Raises ValueError for a sample of random size if only a sensitivity under REPLACE_ONE is known.

        Leaving out a record may change the result by more than half of the sensitivity. So half of the sensitivity is
        no bound on one contribution.
        """
        if self.unit == "sensitivity":
            subject = f"`{type(event).__name__}` where noise is relative to the sensitivity"
            self.check_dp_accounting_relation(subject, ADD_OR_REMOVE, SPECIAL)

    def check_dp_accounting_relation(self, subject: str, *accepted: Any) -> None:
        """Raises ValueError unless the relation is one of those that are ``accepted`` for ``subject``."""
        if self.relation not in accepted:
            names = " or ".join(f"`{relation.name}`" for relation in accepted)
            raise ValueError(f"neighboring_relation must be {names} for {subject}. Found {self.relation}.")
