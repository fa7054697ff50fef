"""The engine of sampled Gaussians with little noise, alone or composed with plain Gaussians.

The bounds are proved in docs/theory/closed-forms.md section 5.

With so little noise, a step whose sample holds the record shows that it does. So the bounds depend only on the number
of these steps, the participation count. For each count the curve, which is delta as a function of epsilon, is the curve
of that many Gaussians. Both ends of a bound are sums over the counts. If the record is removed, the two ends agree for
noise multipliers up to about 0.06. For so little noise, the other engines would need too many grid points and
quadrature nodes. If the record is replaced in a sample of fixed size, the relative distance of the two ends is about
the square of the noise multiplier.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from .... import mechanisms as m
from ...numerics.outward import Range
from ...pairs.replacement import Replaced, ReplacedGaussian
from ..closed_form.privacy_curve import mirror_privacy_curve
from ..engine_interface import DEFAULT, REVERSED, Bound, Direction, Parts, Request, build_bound_with_one_term
from . import curves as participations
from .curves import Curve, list_likely_participations, take_largest_participations, take_median_participations

MOST_SIGMA = 0.1
"""Largest noise multiplier. Other engines serve larger noise multipliers better."""
LEAST_SIGMA = 1e-100
MOST_OVERLAP = 10.0
"""Largest count * q * sigma^2 for ``count`` steps of sampling probability q and noise multiplier sigma. Above this
number, the curves of many participation counts overlap, and each of these curves takes time."""
SHARP_SIGMA, MOST_SHARP_OVERLAP = 0.055, 1000.0
"""If the noise multiplier is at most ``SHARP_SIGMA`` and samples are not of a fixed size, count * q * sigma^2 may be as
large as ``MOST_SHARP_OVERLAP``. For so little noise, the sums over the counts are quick to compute.

Up to ``SHARP_SIGMA``, the engine also serves runs with more than ``MOST_SPAN`` (``curves.py``) likely participation
counts. In this case the upper bound uses the largest likely count alone, and the lower bound uses a count near the mean
alone."""


class CurveBounds(NamedTuple):
    """An upper and a lower bound of the curve, and an epsilon at which searches start."""

    above: Curve
    below: Curve
    start: float


class ByParticipations:
    """Bounds epsilon and delta by sums over the number of steps whose sample holds the record."""

    name = "participations"

    def explain_refusal(self, parts: Parts, direction: Direction) -> str | None:
        return (
            None
            if _find_participation_curves(parts, direction)
            else "it serves one sampled Gaussian of little noise and plain ones"
        )

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Bound:
        found = _find_participation_curves(parts, direction)
        assert found is not None, "refused parts were asked"
        upper = participations.find_participation_epsilon(found.above, delta, found.start, above=True)
        nearby = upper if 0 < upper < math.inf else found.start
        lower = participations.find_participation_epsilon(found.below, delta, nearby, above=False)
        return build_bound_with_one_term(lower, upper, self.name, "participations")

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Bound:
        """Bounds delta by sums over the number of participations.

        At a negative epsilon the sums are computed for the reversed pair.
        """
        back = epsilon < 0
        found = _find_participation_curves(parts, REVERSED[direction] if back else direction)
        assert found is not None, "refused parts were asked"
        lower, upper = min(found.below(abs(epsilon)), 1.0), found.above(abs(epsilon))
        if back:
            lower = min(mirror_privacy_curve(epsilon, lower).lo, 1.0)
            upper = mirror_privacy_curve(epsilon, upper).hi
        return build_bound_with_one_term(lower, upper, self.name, "participations")


ENGINE = ByParticipations()


@lru_cache(maxsize=16)
def _find_participation_curves(parts: Parts, direction: Direction) -> CurveBounds | None:
    """Returns bounds of the curve of one sampled Gaussian and plain Gaussians; None if the engine cannot serve the
    parts."""
    sampled = [part for part in parts if not isinstance(part[0], m.Gaussian)]
    plain = [part for part in parts if isinstance(part[0], m.Gaussian)]
    if len(sampled) != 1:
        return None
    mechanism, count = sampled[0]
    fixed = isinstance(mechanism, Replaced)
    match mechanism:
        case m.PoissonSampled(m.Gaussian(sigma), q) if sigma <= MOST_SIGMA:
            share = Range(q)
        case Replaced(m.FixedSizeSampled(m.Gaussian(sigma), size, total)) if sigma <= MOST_SIGMA:
            share = Range(size) / total
        case ReplacedGaussian(sigma, q) if sigma <= MOST_SIGMA:
            share = Range(q)
        case _:
            return None
    if not (share.lo > 0 and share.hi < 1 and sigma >= LEAST_SIGMA):
        return None
    told_apart = participations.can_serve_participations(count, share.hi)
    overlap = MOST_SHARP_OVERLAP if sigma <= SHARP_SIGMA and not fixed else MOST_OVERLAP
    if sigma > SHARP_SIGMA if not told_apart else count * share.hi * sigma**2 > overlap:
        return None
    # Replacing a record in a sample moves an output twice as far as removing the record. Plain Gaussians are translated
    # to "replace" already.
    once = (4 if fixed else 1) / (Range(sigma) * sigma)
    if not participations.is_monotone_when_participation_told(share, once):
        return None
    beside = Range(0.0)
    for gaussian, times in plain:
        other = Range(gaussian.noise_multiplier)  # type: ignore[attr-defined]
        beside += times / (other * other)
    if told_apart:
        high = list_likely_participations(count, share.hi)
        low = high if share.lo == share.hi else list_likely_participations(count, share.lo)
    else:
        low, high = take_median_participations(count, share.lo), take_largest_participations(count, share.hi)
    start = max(0.5 * once.hi, 1.0)
    if direction == "add" and isinstance(mechanism, m.PoissonSampled):
        return CurveBounds(
            participations.bound_added_participations_above(high, once, beside),
            participations.bound_added_participations_below(low, once, beside),
            start,
        )
    of_removed = (
        participations.build_participation_mixture_above if fixed else participations.bound_removed_participations_above
    )
    above = of_removed(high, once, beside)
    if isinstance(mechanism, ReplacedGaussian):
        above = participations.bound_replaced_participations_above(
            high, above, participations.bound_added_participations_above(high, once, beside)
        )
    return CurveBounds(
        above,
        participations.build_mixture_when_participation_told(low, once, beside).bound_participations_from_below,
        start,
    )
