"""The account of several runs that continue one another."""

from __future__ import annotations

from typing import NamedTuple

from ...composition import Composition
from ...mechanisms import Mechanism


class ContinuedFitAccount(NamedTuple):
    """The charge and the releases of the runs so far."""

    charged: Composition
    history: tuple[Mechanism, ...]

    def add_run(self, run: ContinuedFitAccount, disjoint: bool) -> ContinuedFitAccount:
        """Returns the account of these runs and one more run.

        ``disjoint`` says that no record of the new run was in an earlier run (docs/theory/blocks.md, section 4).
        """
        charged = (
            combine_charges_of_disjoint_fits(self.charged, run.charged) if disjoint else self.charged + run.charged
        )
        return ContinuedFitAccount(charged, self.history + run.history)


def combine_charges_of_disjoint_fits(one: Composition, other: Composition) -> Composition:
    """Returns the smallest composition that contains both compositions.

    The count of each mechanism is the larger of its counts in the two compositions.
    """
    counts = dict(one.parts)
    for mechanism, count in other.parts:
        counts[mechanism] = max(count, counts.get(mechanism, 0))
    return Composition(counts.items())
