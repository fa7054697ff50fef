"""Privacy loss distributions of mechanisms for the grid engine (docs/theory/grid.md, section 6).

Each distribution includes bounds of its errors, which are relative for its masses and absolute for its losses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .... import mechanisms as m
from ...._core import (
    GRID_KEPT_DEVIATIONS,
    GRID_LEAST_SCALE,
    GRID_LEAST_SHIFT,
    GRID_MOST_ATOMS,
    GRID_MOST_SHIFT,
    GRID_USER_TOTAL,
    GridLaw,
)
from ....mechanisms import PrivacyLoss
from ....mechanisms.loss_tables import CompletePair
from ....mechanisms.selections_and_groups import SelectionOrGroup
from ...numerics.outward import Number, Range, as_range
from ...pairs.class_members import BinaryRangeMember
from ...pairs.neighbors import translate_to_replacement
from ...pairs.pair_orders import unite_orders_of_pair
from ...pairs.replacement import (
    Replaced,
    ReplacedClass,
    ReplacedGaussian,
    ReplacedLosses,
    Zeroed,
    bracket_losses_of_replaced_pair,
)
from ...pairs.zeroed_class import PairOfAtoms, build_zeroed_class
from ..closed_form.truncation import compute_sample_truncation
from ..engine_interface import Direction
from . import mixtures

U = 2.0**-53
MOST_LAWS = 4096
"""Largest number of distributions in the cache. Composed results are cached for these objects, so a distribution that
was dropped is composed anew. Each distribution takes up to 50 KB."""


class BoundingDistributions(NamedTuple):
    """A distribution that dominates the mechanism, and several distributions that the mechanism dominates.

    If the mechanism's own distribution is known exactly, it is both ``upper`` and the only one of ``lowers``.
    """

    upper: GridLaw
    lowers: tuple[GridLaw, ...]


def explain_missing_grid_distribution(mechanism: m.Mechanism, direction: Direction) -> str | None:
    """Returns the reason why the mechanism has no loss distribution here, or None if it has one."""
    match mechanism:
        case Replaced(inner) | Zeroed(inner) if not isinstance(inner, (m.ZCDP, m.DiscreteGaussianVector)):
            return _explain_missing_grid_sample(inner)
        case m.TruncatedPoissonSampled() | m.MixtureOfGaussians():
            return _explain_missing_grid_sample(mechanism)
        case m.ZCDP() | m.DiscreteGaussianVector() | Replaced() | Zeroed() | SelectionOrGroup():
            return f"of {mechanism!r} no one privacy-loss distribution is the worst"
        case m.DiscreteGaussian(sigma, _) if 2 * GRID_KEPT_DEVIATIONS * sigma > GRID_MOST_ATOMS:
            return f"discrete Gaussian noise of sigma {sigma!r} takes too many values"
        case m.DiscreteLaplace(_, sensitivity) if sensitivity > GRID_MOST_ATOMS:
            return f"discrete Laplace noise under sensitivity {sensitivity!r} has too many losses"
        case m.FixedSizeSampled() | m.SampledWithReplacement():
            return "batches of fixed size are accounted under 'replace' and 'replace_special' alone"
        case m.PoissonSampled(inner, _):
            return explain_missing_grid_distribution(inner, direction)
        case m.RandomAllocation():
            return "random allocation is composed by the engine 'allocation'"
    return None


def _explain_missing_grid_sample(mechanism: m.Mechanism) -> str | None:
    """Returns the reason why a sample or a mixture has no loss distribution here; None if it has one.

    The reason is the same for removing, adding, replacing and zeroing a record.
    """
    match mechanism:
        case m.MixtureOfGaussians(sigma, sensitivities):
            shift = max(sensitivities) / sigma
        case m.SampledWithReplacement(m.Gaussian(sigma), size, total):
            # The record is drawn size/total times on average. More than 4 * size/total + 200 draws are negligibly rare.
            shift = 2 * min(size, 4 * size / total + 200) / sigma
        case m.PoissonSampled(inner):
            return _explain_missing_grid_sample(inner)
        case m.TruncatedPoissonSampled(inner) | m.FixedSizeSampled(inner):
            if isinstance(inner, PrivacyLoss):
                return "a user-defined loss has no proved pair in batches of fixed size"
            return explain_missing_grid_distribution(inner, "remove") or explain_missing_grid_distribution(
                translate_to_replacement(inner), "remove"
            )
        case _:
            return explain_missing_grid_distribution(mechanism, "remove")
    if not GRID_LEAST_SHIFT <= shift <= GRID_MOST_SHIFT:
        return f"its mixtures have shifts between 1e-9 and 1e6 deviations of the noise, not {mechanism!r}"
    return None


@lru_cache(maxsize=MOST_LAWS)
def grid_loss_distribution(mechanism: m.Mechanism, direction: Direction) -> BoundingDistributions:
    """Returns the distributions that bound a mechanism that was not refused."""
    match mechanism:
        case m.PoissonSampled(inner, q):
            return _prepare_poisson_sample_for_grid(inner, q, direction)
        case Replaced(m.FixedSizeSampled(inner, size, total)):
            share = Range(size) / total
            base = grid_loss_distribution(translate_to_replacement(inner), "remove")
            return _prepare_replacement_for_grid(base, base, share.lo, min(share.hi, math.nextafter(1.0, 0.0)))
        case m.MixtureOfGaussians(sigma, norms, shares):
            ahead, behind = mixtures.build_grid_mixture_weights(norms, shares), mixtures.NOTHING
            return _prepare_mixture_for_grid(*((behind, ahead) if direction == "add" else (ahead, behind)), sigma)
        case Replaced(m.MixtureOfGaussians(sigma, norms, shares)):
            return _prepare_mixture_for_grid(
                mixtures.build_grid_mixture_weights(norms, shares),
                mixtures.build_grid_mixture_weights(norms, shares),
                sigma,
            )
        case Replaced(m.PoissonSampled(m.MixtureOfGaussians(sigma, norms, shares), q)):
            return _prepare_mixture_for_grid(
                mixtures.build_grid_mixture_weights(norms, shares, q),
                mixtures.build_grid_mixture_weights(norms, shares, q),
                sigma,
            )
        case Replaced(m.SampledWithReplacement() as inner) | Zeroed(m.SampledWithReplacement() as inner):
            return _prepare_draws_for_grid(inner, direction, replaced=isinstance(mechanism, Replaced))
        case Replaced(m.PoissonSampled(inner, q)):
            return _prepare_replaced_sample_for_grid(inner, q)
        case Replaced(PrivacyLoss() as given):
            one = _prepare_complete_pair_for_grid(given.dominated)
            return BoundingDistributions(
                _prepare_complete_pair_for_grid(unite_orders_of_pair(given.dominating)), (one, one.reversed())
            )
        case m.TruncatedPoissonSampled():
            return _prepare_truncated_sample_for_grid(mechanism, direction, mechanism)
        case Replaced(m.TruncatedPoissonSampled() as inner) | Zeroed(m.TruncatedPoissonSampled() as inner):
            return _prepare_truncated_sample_for_grid(inner, direction, mechanism)
        case Zeroed(m.FixedSizeSampled(inner, size, total)):
            share = Range(size) / total
            if share.lo >= 1:
                return grid_loss_distribution(inner, direction)
            upper = _prepare_zeroed_record_for_grid(inner, min(share.hi, math.nextafter(1.0, 0.0)), direction)
            return BoundingDistributions(upper, _prepare_zeroed_members_for_grid(inner, share.lo, direction))
    return _prepare_unsampled_for_grid(mechanism, direction)


def _prepare_unsampled_for_grid(mechanism: m.Mechanism, direction: Direction) -> BoundingDistributions:
    """Returns the distributions of a mechanism that is not sampled, or of a pair for "replace" with a formula."""
    match mechanism:
        case m.Gaussian(sigma):
            return _as_exact_grid_distribution(GridLaw.gaussian(1 / sigma))
        case m.Laplace(scale):
            return _as_exact_grid_distribution(GridLaw.laplace(1 / scale))
        case m.BoundedRange(eta):
            return _as_exact_grid_distribution(GridLaw.bounded_range(eta))
        case m.PureDP():
            return _as_exact_grid_distribution(GridLaw.approximate_dp(mechanism.nominal_epsilon, 0.0))
        case m.ApproximateDP():
            return _as_exact_grid_distribution(
                GridLaw.approximate_dp(mechanism.nominal_epsilon, mechanism.nominal_delta)
            )
        case BinaryRangeMember(eta, _):
            pair = _prepare_ranges_for_grid(mechanism.list_atoms_of_pair(), step=Range(eta))
            return _as_exact_grid_distribution(pair.reversed() if direction == "add" else pair)
        case ReplacedClass():
            return _prepare_replaced_class_for_grid(mechanism)
        case ReplacedGaussian(sigma, q):
            return _as_exact_grid_distribution(GridLaw.gaussian_replaced(1 / sigma, q))
        case m.RandomizedResponse(p, buckets):
            return _as_exact_grid_distribution(GridLaw.randomized_response(p, buckets))
        case m.DiscreteGaussian(sigma, _) if sigma * sigma < GRID_LEAST_SCALE:
            return _prepare_tiny_noise_for_grid()
        case m.DiscreteLaplace(scale, _) if scale < GRID_LEAST_SCALE:
            return _prepare_tiny_noise_for_grid()
        case m.DiscreteGaussian(sigma, sensitivity):
            return _as_exact_grid_distribution(GridLaw.discrete_gaussian(sigma, sensitivity))
        case m.DiscreteLaplace(scale, sensitivity):
            return _as_exact_grid_distribution(GridLaw.discrete_laplace(scale, sensitivity))
        case PrivacyLoss():
            return _prepare_user_loss_for_grid(mechanism, direction == "add" and not mechanism.mirrored)
    raise AssertionError(mechanism)


def _prepare_tiny_noise_for_grid() -> BoundingDistributions:
    """Returns the distributions of discrete noise with a scale below ``GRID_LEAST_SCALE``.

    The losses of such noise exceed 1e200, except with a probability of e^-1e199.
    """
    return BoundingDistributions(
        _prepare_atoms_for_grid([], [], [], infinity=1.0, minus_infinity=1.0),
        (_prepare_atoms_for_grid([1e200], [0.0], [4 * U]),),
    )


def _as_exact_grid_distribution(found: GridLaw) -> BoundingDistributions:
    """Returns one distribution as its own upper and lower bound."""
    return BoundingDistributions(found, (found,))


def _prepare_poisson_sample_for_grid(inner: m.Mechanism, q: float, direction: Direction) -> BoundingDistributions:
    """Returns the distributions of ``inner`` on a Poisson sample."""
    base, add = grid_loss_distribution(inner, direction), direction == "add"
    if q == 1:
        return base
    upper = base.upper.poisson(q, add)
    if base.lowers == (base.upper,):
        return _as_exact_grid_distribution(upper)
    return BoundingDistributions(upper, tuple(one.poisson(q, add) for one in base.lowers))


def _prepare_replaced_sample_for_grid(inner: m.Mechanism, q: float) -> BoundingDistributions:
    """Returns the distributions of replacing a record in a Poisson sample (docs/theory/replace.md section 8).

    The distributions are exact for integer noise, unless the noise takes too many values.
    """
    if q < 1:
        match inner:
            case m.DiscreteGaussian(sigma, sensitivity) if _is_moderate_grid_noise(sigma, sensitivity):
                return _as_exact_grid_distribution(GridLaw.discrete_gaussian_replaced(sigma, sensitivity, q))
            case m.DiscreteLaplace(scale, sensitivity) if 2 * sensitivity < GRID_MOST_ATOMS and scale > _LEAST_SCALE:
                return _as_exact_grid_distribution(GridLaw.discrete_laplace_replaced(scale, sensitivity, q))
            case m.Laplace(scale) if scale > _LEAST_SCALE:
                upper = grid_loss_distribution(translate_to_replacement(inner), "remove").upper.replace_one(q)
                return BoundingDistributions(upper, (GridLaw.laplace_replaced_member(1 / scale, q),))
    return _prepare_replacement_for_grid(
        grid_loss_distribution(translate_to_replacement(inner), "remove"), grid_loss_distribution(inner, "remove"), q, q
    )


def _is_moderate_grid_noise(sigma: float, sensitivity: int) -> bool:
    """Tells whether discrete Gaussian noise has few enough values around the means of three data sets (with one record,
    the other one, or neither), and no losses near overflow."""
    values = 6 * GRID_KEPT_DEVIATIONS * sigma
    return values <= GRID_MOST_ATOMS and sigma > _LEAST_SCALE and sensitivity <= min(2.0**50, 1e100 * sigma)


_LEAST_SCALE = 1e-100
"""Smallest scale of noise whose exact losses under "replace" on a sample are computed."""


def _prepare_replacement_for_grid(
    base: BoundingDistributions, member: BoundingDistributions, low: float, high: float
) -> BoundingDistributions:
    """Returns the distributions of replacing a record of a sample, for a range of inclusion probabilities.

    The sample holds the record with a probability between ``low`` and ``high``. ``base`` bounds the replacement of a
    record that is in the sample, and gives the upper bound. ``member`` on a Poisson sample gives lower bounds, because
    some neighbours attain this pair. For samples of fixed size, the other records of these neighbours are all alike.
    Under Poisson sampling, these neighbours differ by replacing a record by one that contributes nothing.
    """
    if low == 1:
        return base
    lowers = tuple(one.poisson(low, add) for one in member.lowers for add in (False, True))
    return BoundingDistributions(base.upper.replace_one(high), lowers)


def _prepare_mixture_for_grid(
    ahead: mixtures.Weights, behind: mixtures.Weights, sigma: float, lost: float = 0.0
) -> BoundingDistributions:
    """Returns the distributions of a pair of two mixtures of Gaussians.

    ``lost`` is the probability of the shifts that were left out.
    """
    given = (
        mixtures.list_midpoints_of_grid_mixture(ahead),
        mixtures.list_midpoints_of_grid_mixture(behind),
        sigma,
        lost,
        mixtures.measure_error_of_grid_mixture(ahead, behind),
    )
    upper, lower = GridLaw.gaussian_mixtures(*given)
    return _as_exact_grid_distribution(upper) if lower is None else BoundingDistributions(upper, (lower,))


def _prepare_draws_for_grid(
    mechanism: m.SampledWithReplacement, direction: Direction, replaced: bool
) -> BoundingDistributions:
    """Returns the distributions of a sample that holds the record k times, where k is random (mixtures.md section 6).

    Replacing the record moves the sum by at most 2k, and zeroing the record moves it by at most k.
    """
    sigma = mechanism.mechanism.noise_multiplier
    drawn, lost = mixtures.list_grid_mixture_draws(mechanism.sample_size, mechanism.dataset_size)
    one, two = list(drawn), [(2 * k, weight) for k, weight in drawn]
    if replaced:
        ahead, behind, attained = two, two, two
    else:
        ahead, behind, attained = (two, one, one) if direction == "remove" else (one, two, one)
    less = mixtures.absorb_small_grid_mixture_shifts(attained, lost)
    lowers = [
        _prepare_mixture_for_grid(*pair, sigma).lowers[0]
        for pair in ((less, mixtures.NOTHING), (mixtures.NOTHING, less))
    ]
    return BoundingDistributions(_prepare_mixture_for_grid(ahead, behind, sigma, lost).upper, tuple(lowers))


def _prepare_truncated_sample_for_grid(
    mechanism: m.TruncatedPoissonSampled, direction: Direction, asked: m.Mechanism
) -> BoundingDistributions:
    """Returns the distributions of a Poisson sample that is cut to a largest size (mixtures.md section 5).

    The distributions are valid for an adversary who is told whether the sample was cut.
    """
    inner, q = mechanism.mechanism, mechanism.sampling_probability
    cut, within, drawn = compute_sample_truncation(q, mechanism.batch_size, mechanism.dataset_size)
    high = min(within.hi, math.nextafter(1.0, 0.0))
    poisson: tuple[m.Mechanism, ...] = tuple(m.PoissonSampled(inner, p) for p in (q, drawn.lo) if p > 0)
    if isinstance(asked, Replaced):
        poisson, direction = tuple(map(translate_to_replacement, poisson)), "remove"
        fixed = grid_loss_distribution(translate_to_replacement(inner), "remove").upper.replace_one(high)
    elif isinstance(asked, Zeroed):
        fixed = _prepare_zeroed_record_for_grid(inner, high, direction)
    else:
        fixed = grid_loss_distribution(translate_to_replacement(inner), "remove").upper.poisson(
            high, direction == "add"
        )
    attained = grid_loss_distribution(poisson[1], direction).lowers if len(poisson) > 1 else ()
    if cut.lo >= 1:
        return BoundingDistributions(fixed, attained or (fixed,))
    rest = max(cut.hi, 1e-305)
    error = 2 * (cut.hi - cut.lo) / rest + 8 * U
    upper = grid_loss_distribution(poisson[0], direction).upper.labelled(min((1 - cut).hi, 1.0), rest, fixed, error)
    return BoundingDistributions(upper, attained or (upper,))


def _prepare_zeroed_record_for_grid(inner: m.Mechanism, q: float, direction: Direction) -> GridLaw:
    """Returns a distribution for setting a record of a sample of fixed size to zero (mixtures.md section 4)."""
    if isinstance(inner, m.Gaussian):
        return GridLaw.zeroed_out(1 / inner.noise_multiplier, q, direction == "add")
    if (known := _find_zeroed_class_for_grid(inner, q)) is not None:
        return _prepare_pair_for_grid(known[0], direction)
    return grid_loss_distribution(translate_to_replacement(inner), "remove").upper.replace_one(q)


def _prepare_zeroed_members_for_grid(inner: m.Mechanism, q: float, direction: Direction) -> tuple[GridLaw, ...]:
    """Returns distributions that data sets of certain kinds attain.

    In these data sets all other records contribute nothing, or the same as the record, or, for a Gaussian, the opposite
    of the record's contribution.
    """
    found = tuple(
        one.poisson(q, add) for one in grid_loss_distribution(inner, "remove").lowers for add in (False, True)
    )
    if isinstance(inner, m.Gaussian):
        found += (GridLaw.zeroed_out_member(1 / inner.noise_multiplier, q, direction == "add"),)
    if (known := _find_zeroed_class_for_grid(inner, q)) is not None:
        found += tuple(_prepare_pair_for_grid(pair, direction) for pair in known[1])
    return found


def _find_zeroed_class_for_grid(inner: m.Mechanism, q: float) -> tuple[PairOfAtoms, tuple[PairOfAtoms, ...]] | None:
    """Returns the pairs of ``build_zeroed_class`` if ``inner`` is a class with such pairs."""
    if not isinstance(inner, (m.PureDP, m.ApproximateDP)) or not 0 < q < 1:
        return None
    return build_zeroed_class(inner.nominal_epsilon, getattr(inner, "nominal_delta", 0.0), Range(q))


def _prepare_pair_for_grid(pair: PairOfAtoms, direction: Direction) -> GridLaw:
    """Returns the distribution of a pair for the direction "remove", or of its reverse for "add"."""
    law = _prepare_ranges_for_grid(pair.atoms, pair.infinity, minus_infinity=pair.minus_infinity)
    return law.reversed() if direction == "add" else law


def _prepare_atoms_for_grid(
    losses: Sequence[float] | NDArray[np.float64],
    log_masses: Sequence[float] | NDArray[np.float64],
    relative: Sequence[float] | NDArray[np.float64],
    *,
    infinity: float = 0.0,
    minus_infinity: float = 0.0,
    infinity_relative: float = 0.0,
    slack: float = 0.0,
    anchor: float = 0.0,
    step: float = 0.0,
    total: float = 0.0,
) -> GridLaw:
    """Returns a distribution of atoms at ascending ``losses``, each of which has an error of at most ``slack``.

    The masses have the relative errors ``relative``. Let (P, Q) be the pair. ``infinity`` is P's mass where Q has none,
    and ``minus_infinity`` is Q's mass where P has none. These two masses have the relative error ``infinity_relative``.
    The grid goes through the loss ``anchor``. ``step`` is the spacing of equally spaced losses, and 0 for others. The
    sum of the masses must be 1 up to these errors and ``total``, or the core raises.
    """
    y, masses, rel = (np.asarray(x, dtype=np.float64) for x in (losses, log_masses, relative))
    return GridLaw.atoms(y, masses, rel, infinity, minus_infinity, infinity_relative, slack, anchor, step, total)


def _prepare_ranges_for_grid(
    atoms: list[tuple[Range, Range]],
    infinity: Number = 0.0,
    step: Range | None = None,
    minus_infinity: Number | None = None,
) -> GridLaw:
    """Returns a distribution of atoms (loss, ln mass) that are given by ranges, on a grid through the heaviest atom."""
    middles = [0.5 * (y.lo + y.hi) for y, _ in atoms]
    slack = max((y.hi - y.lo for y, _ in atoms), default=0.0)
    logs = [0.5 * (mass.lo + mass.hi) for _, mass in atoms]
    relative = [1.01 * (mass.hi - mass.lo) + 2 * U for _, mass in atoms]
    width = 0.0 if step is None else 0.5 * (step.lo + step.hi)
    ends = as_range(infinity), as_range(infinity if minus_infinity is None else minus_infinity)
    masses = [0.5 * (end.lo + end.hi) for end in ends]
    error = max((end.hi - end.lo) / mass if mass > 0 else 0.0 for end, mass in zip(ends, masses, strict=True))
    heaviest = max(zip(logs, middles, strict=True), default=(0.0, 0.0))[1]
    return _prepare_atoms_for_grid(
        middles,
        logs,
        relative,
        infinity=masses[0],
        minus_infinity=masses[1],
        infinity_relative=error,
        slack=slack,
        anchor=heaviest,
        step=width,
    )


def _prepare_replaced_class_for_grid(pair: ReplacedClass) -> BoundingDistributions:
    """Returns the distributions of replacing a record under a class of mechanisms."""
    less, more = bracket_losses_of_replaced_pair(pair)
    upper = _prepare_symmetric_losses_for_grid(more)
    return (
        _as_exact_grid_distribution(upper)
        if less is more
        else BoundingDistributions(upper, (_prepare_symmetric_losses_for_grid(less),))
    )


def _prepare_symmetric_losses_for_grid(found: ReplacedLosses) -> GridLaw:
    """Returns a distribution of symmetric losses, on a grid through 0 and the heaviest loss."""
    atoms = found.list_atoms_of_pair()
    heaviest = max(atoms, key=lambda atom: atom[1].lo, default=None)
    return _prepare_ranges_for_grid(atoms, found.infinity, heaviest[0] if heaviest and heaviest[0].lo > 0 else None)


def _prepare_user_loss_for_grid(given: PrivacyLoss, add: bool) -> BoundingDistributions:
    """Returns the distributions of a user's loss, reversed for ``add``."""
    high = _prepare_complete_pair_for_grid(given.dominating)
    low = high if given.dominated is given.dominating else _prepare_complete_pair_for_grid(given.dominated)
    if add:
        back = high.reversed()
        return BoundingDistributions(back, (back if low is high else low.reversed(),))
    return BoundingDistributions(high, (low,))


def _prepare_complete_pair_for_grid(pair: CompletePair) -> GridLaw:
    """Returns the distribution of a pair that is given by arrays, on its own grid if its losses are equally spaced."""
    y, logs = pair.losses, np.log(pair.masses)
    relative = pair.relative + (8 + 2 * np.abs(logs)) * U
    heaviest = float(y[int(np.argmax(logs))]) if len(y) else 0.0
    gaps = np.diff(y)
    even = len(gaps) > 0 and np.ptp(gaps) <= 1e-12 * float(np.abs(y).max())
    step = float(y[-1] - y[0]) / len(gaps) if even else 0.0
    return _prepare_atoms_for_grid(
        y,
        logs,
        relative,
        infinity=pair.infinity,
        minus_infinity=pair.hidden,
        infinity_relative=pair.relative_ends,
        slack=pair.slack,
        anchor=heaviest,
        step=step,
        total=GRID_USER_TOTAL,
    )
