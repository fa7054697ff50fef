"""Pairs for classes of mechanisms on a sample of fixed size, if one record is replaced by a record that contributes
nothing (docs/theory/mixtures.md section 4)."""

from __future__ import annotations

from typing import NamedTuple

from ..numerics.outward import Range, exp, log


class PairOfAtoms(NamedTuple):
    """A pair (P, Q): atoms as (loss, logarithm of the mass under P), P's mass where Q has none, and Q's mass where P
    has none."""

    atoms: list[tuple[Range, Range]]
    infinity: Range
    minus_infinity: Range


def build_zeroed_class(epsilon: float, delta: float, q: Range) -> tuple[PairOfAtoms, tuple[PairOfAtoms, ...]] | None:
    """Returns a pair that dominates the class of (epsilon, delta)-DP mechanisms, and the pairs of two of its members.

    The first pair gives upper bounds, and the pairs of the members give lower bounds. The record is in the sample with
    probability ``q``, which is above 0 and below 1. Returns None if delta is so large that other formulas hold, or if
    e^-epsilon underflows.
    """
    e, d, out = Range(epsilon), Range(delta), 1 - q
    t = exp(-e)
    # P is the distribution of an output that depends on the record, and R of an output that depends on neither record.
    # The density of P over R is 1/t on a set of outputs whose mass under R is s.
    s = t * (1 - d) / (1 + t)
    if not (t.lo > _TINY and (s - d).lo > _LEAST * s.hi and epsilon > 0 and out.lo > 0):
        return None
    bright, faint = out * t + q / t, out * t + q
    none = Range(0.0)
    # Each layer is (mass under R, density over R of the pair's first distribution, density over R of its second
    # distribution). If the record is not in the sample, another record takes its place there. In ``opposite``, outputs
    # that the record makes more likely are made less likely by the other record. In ``same``, both records make the
    # same outputs more likely.
    opposite = [
        (d, q / t, q),
        (s - d, bright, faint),
        (1 - 2 * s, t, faint),
        (s - d, out / t + q * t, out / t + q),
        (d, out / t, out / t + q),
        (out * d, Range(1.0), Range(1.0)),
    ]
    same = [(s, 1 / t, out / t + q), (1 - d - s, t, faint)]
    upper = [
        (log(bright) - log(faint), log(s - d) + log(bright)),
        (Range(0.0), log(out * (d * (1 + t) + s * (1 / t - t)))),
        (-log(out + q / t), log(s)),
    ]
    missing = []
    if delta > 0:  # the outputs where P has mass and R has none
        upper.append((e, log(q * d / t)))
        missing.append((-log(out), log(d)))
    return (
        PairOfAtoms(_sort_atoms_of_zeroed_class(upper), q * d, q * d),
        (
            PairOfAtoms(_list_atoms_of_zeroed_class(opposite), q * d, none),
            PairOfAtoms(_sort_atoms_of_zeroed_class(_list_atoms_of_zeroed_class(same) + missing), none, q * d),
        ),
    )


def _list_atoms_of_zeroed_class(layers: list[tuple[Range, Range, Range]]) -> list[tuple[Range, Range]]:
    """Returns the atoms of the layers that have mass."""
    return _sort_atoms_of_zeroed_class([(log(p) - log(q), log(mass) + log(p)) for mass, p, q in layers if mass.lo > 0])


def _sort_atoms_of_zeroed_class(atoms: list[tuple[Range, Range]]) -> list[tuple[Range, Range]]:
    """Returns the atoms with ascending losses."""
    return sorted(atoms, key=lambda atom: atom[0].lo)


_TINY = 1e-290
"""Smallest e^-epsilon for which the formulas are used."""
_LEAST = 1e-3
"""Smallest ratio of s - delta to the mass s for which the formulas are used. With a smaller ratio, too few digits of
the difference would be correct."""
