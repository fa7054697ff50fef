"""Random allocation: each record takes part in some of the steps, drawn at random (docs/theory/allocation.md).

The curve of a mechanism is delta as a function of epsilon. Bounds for one allocation with one step selected come from
its loss distribution, which is rounded to a grid upward and downward. Several allocations, or one allocation and other
mechanisms, are composed by the transforms of the grid engine. If k > 1 steps are selected, the upper bound is the bound
of k independent allocations. Each of them selects one out of about one k-th of the steps. The lower bound is then the
largest of several lower bounds, such as those of a single step, of the sum of all outputs, and of the sum of integer
scores of the outputs (``sums.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .... import mechanisms as m
from ...._core import GridLaw, grid_delta, grid_epsilon
from ....bound import ContradictionError
from ....composition import Composition
from ...numerics.outward import INF, Range, expm1, log
from ...numerics.root import bracket_monotone_crossing
from ...numerics.shared_work import share_work_results, try_to_spend_work
from ...pairs.class_members import has_pair_without_loss, is_or_wraps_kind_of_mechanism
from ..closed_form import engine as closed_form
from ..closed_form.privacy_curve import PrivacyCurve
from ..engine_interface import DEFAULT, Bound, Direction, Parts, Request, measure_width_of_engine_bound
from ..grid import loss_distributions
from ..grid.engine import BYTES_PER_POINT, MOST_POINTS, MOST_STEPS
from . import allocation_atoms
from . import sums as allocation_sums
from .allocation_atoms import COARSEST, FINEST, Allocation, RoundedAllocationAtoms

_Losses = list[tuple[GridLaw, float]]
_Found = tuple[float, float, dict[str, float], int, int]
COMPOSED_LEVEL = 9
"""Level of the grid of composed distributions if the requested relative width is ``COMPOSED_WIDTH``. The grid of a
level has the spacing 2^-level in the privacy loss."""
COMPOSED_WIDTH = 1e-4
"""Smallest relative width that the bounds of composed distributions aim at."""


class RandomAllocations:
    """Serves compositions with random allocations."""

    name = "allocation"

    def explain_refusal(self, parts: Parts, direction: Direction) -> str | None:
        """Returns the reason for the refusal: a mechanism without a loss distribution, or too many steps."""
        if not any(isinstance(mechanism, m.RandomAllocation) for mechanism, _ in parts):
            return "it serves compositions with RandomAllocation"
        for mechanism, count in parts:
            if isinstance(mechanism, m.RandomAllocation):
                reason = allocation_atoms.explain_missing_allocation_ratios(mechanism.mechanism)
                if reason is None and mechanism.steps >= MOST_STEPS:
                    reason = f"it allocates to fewer than 2^53 steps, not {mechanism.steps}"
            else:
                reason = loss_distributions.explain_missing_grid_distribution(mechanism, direction)
            if reason is None and count * getattr(mechanism, "selected", 1) >= MOST_STEPS:
                reason = f"it composes fewer than 2^53 steps, not {count}"
            if reason:
                return reason
        return None

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Bound:
        """Intersects the bound of the grid with bounds by formulas for dominating and dominated compositions."""
        floor = allocation_atoms.choose_allocation_floor(delta)
        # Bounds by formulas, which may be better than the bounds of the grid.
        lower, upper = _bound_allocation_by_formulas(
            parts, direction, INF, lambda one: closed_form.ENGINE.epsilon(one, direction, delta)
        )
        for one, log_choices in _list_largest_allocation_products(parts, direction):
            alone = closed_form.ENGINE.epsilon(one, direction, delta).lower
            lower = max(lower, (Range(alone) - log_choices).lo if alone < INF else INF)
        for sums in _list_allocation_score_sums(parts, direction):
            lower = max(lower, sums.epsilon(delta))
        single = _get_single_allocation(parts)
        if single is None:
            found = _compose_allocations_by_grid(
                parts, direction, floor, request, lambda losses, *size: grid_epsilon(losses, delta, *size)
            )
            if few := _ask_coarse_allocation_curve(parts, direction, floor):
                ends = few.epsilon(delta)
                lower, upper = max(lower, ends.lo), min(upper, ends.hi)
        else:
            found = _refine_allocation_grid(
                single,
                floor,
                request.width,
                lambda one: _solve_allocation_epsilons(one.lower, one.upper, direction, delta),
            )
        return _combine_allocation_bounds(parts, found, lower, max(upper, lower))

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Bound:
        """Intersects the bound of the grid with bounds by formulas for dominating and dominated compositions."""
        lower, upper = _bound_allocation_by_formulas(
            parts, direction, 1.0, lambda one: closed_form.ENGINE.delta(one, direction, epsilon)
        )
        lower = max(lower, (-expm1(epsilon)).lo)
        upper = max(upper, lower)
        for one, log_choices in _list_largest_allocation_products(parts, direction):
            at = Range(epsilon) + log_choices
            lower = max(lower, closed_form.ENGINE.delta(one, direction, at.hi).lower)
        for sums in _list_allocation_score_sums(parts, direction):
            lower = max(lower, sums.delta(epsilon))
        single = _get_single_allocation(parts)
        if single is None:
            floor = allocation_atoms.choose_allocation_floor(max(lower, min(upper, 1e-20)))
            found = _compose_allocations_by_grid(
                parts, direction, floor, request, lambda losses, *size: grid_delta(losses, epsilon, *size)
            )
            if few := _ask_coarse_allocation_curve(parts, direction, floor):
                ends = few.delta(epsilon)
                lower, upper = max(lower, ends.lo), min(upper, ends.hi)
            return _combine_allocation_bounds(parts, found, lower, upper)
        # The probability that may be cut off depends on the answer. So a coarse grid first gives a rough answer.
        floor = 1e-20
        for guess in (1e-20, 1e-100, allocation_atoms.LEAST_FLOOR):
            rough = allocation_atoms.bound_allocation_by_atoms(single.mechanism, single.steps, COARSEST, guess)
            if rough is None:
                break
            floor = allocation_atoms.choose_allocation_floor(max(rough.lower.delta(epsilon, direction), lower))
            if floor >= guess:
                break

        def evaluate_allocation_deltas(one: Allocation) -> tuple[float, float]:
            return one.lower.delta(epsilon, direction), one.upper.delta(epsilon, direction)

        return _combine_allocation_bounds(
            parts, _refine_allocation_grid(single, floor, request.width, evaluate_allocation_deltas), lower, upper
        )


ENGINE = RandomAllocations()


def _combine_allocation_bounds(
    parts: Parts, found: tuple[float, float, dict[str, float]] | None, lower: float, upper: float
) -> Bound:
    """Returns the intersection of the bounds of a grid and of formulas.

    ``BoundedRange`` stands for a class of mechanisms, and its dominating pair bounds all members of this class. No
    member attains the pair at every epsilon, so a formula may have an upper end below the lower end of the grid. The
    lower end of the grid then says nothing about the members (pairs/class_members.py), and is reduced to the upper end
    of the formula. A lower end of a formula is reduced in the same way.
    """
    if any(is_or_wraps_kind_of_mechanism(mechanism, m.BoundedRange) for mechanism, _ in parts):
        lower = min(lower, upper)
        found = found and (min(found[0], upper), found[1], found[2])
    if found is None:
        return Bound(lower, upper, ENGINE.name, {"part": measure_width_of_engine_bound(lower, upper)})
    budget = found[2] if found[1] < upper else {"part": measure_width_of_engine_bound(lower, upper)}
    low, high = max(lower, found[0]), min(upper, found[1])
    if not low <= high:
        raise ContradictionError(f"random allocation: a grid has {found[:2]} where formulas have {(lower, upper)}")
    return Bound(low, high, ENGINE.name, budget)


def _get_single_allocation(parts: Parts) -> m.RandomAllocation | None:
    """Returns the only part of ``parts`` if it is a single allocation that selects one step, and otherwise None."""
    (mechanism, count), *rest = parts
    if not rest and count == 1 and isinstance(mechanism, m.RandomAllocation) and mechanism.selected == 1:
        return mechanism
    return None


def _refine_allocation_grid(
    single: m.RandomAllocation, floor: float, width: float, ask: Callable[[Allocation], tuple[float, float]]
) -> tuple[float, float, dict[str, float]] | None:
    """Returns bounds of ``ask`` from a coarse grid and, if they are wider than ``width``, from a finer grid.

    The width of bounds is proportional to the square of the spacing, so the first bounds tell how fine the second grid
    must be. Returns None if even the coarse grid would have too many cells.
    """
    found = allocation_atoms.build_finest_allocation(single.mechanism, single.steps, floor, COARSEST + 1)
    if found is None:
        return None
    lower, upper = ask(found)
    gap = (upper - lower) / upper if 0 < upper < INF else 1.0
    if gap > width:
        more = math.ceil(0.5 * math.log2(2 * gap / max(width, 1e-9))) + 1
        better = allocation_atoms.build_finest_allocation(
            single.mechanism, single.steps, floor, min(COARSEST + 1 + more, FINEST)
        )
        if better is not None:
            again = ask(better)
            lower, upper = max(lower, again[0]), min(upper, again[1])
    return lower, upper, {"discretisation": measure_width_of_engine_bound(lower, upper)}


def _solve_allocation_epsilons(
    below: RoundedAllocationAtoms, above: RoundedAllocationAtoms, direction: Direction, delta: float
) -> tuple[float, float]:
    """Returns the lower bound of epsilon from the atoms ``below``, and the upper bound from the atoms ``above``."""
    return _bracket_allocation_epsilon(below, direction, delta)[0], _bracket_allocation_epsilon(
        above, direction, delta
    )[1]


def _bracket_allocation_epsilon(
    atoms: RoundedAllocationAtoms, direction: Direction, delta: float
) -> tuple[float, float]:
    """Returns two epsilons >= 0 that are close to each other.

    The curve exceeds ``delta`` at the first epsilon, unless this epsilon is 0, and not at the second one. Both are
    infinite if the curve exceeds ``delta`` everywhere.
    """
    if atoms.delta(0.0, direction) <= delta:
        return 0.0, 0.0
    if atoms.delta_limit_of_allocation(direction) > delta:
        return INF, INF
    return bracket_monotone_crossing(lambda epsilon: atoms.delta(epsilon, direction) > delta, 1.0, 4e-15, most=4096.0)


def _compose_allocations_by_grid(
    parts: Parts, direction: Direction, floor: float, request: Request, ask: Callable[[_Losses, float, int], _Found]
) -> tuple[float, float, dict[str, float]] | None:
    """Returns bounds from the transforms of the grid engine.

    If several steps are selected, a single step or the sum of the outputs replaces the allocation in the lower bound.
    """
    points = min(MOST_POINTS, max(64, request.max_bytes // BYTES_PER_POINT))
    above, below, sums = [], [], []
    work = allocation_atoms.MOST_WORK / max(1, sum(isinstance(mechanism, m.RandomAllocation) for mechanism, _ in parts))
    width = max(request.width, COMPOSED_WIDTH)
    # The width of bounds is proportional to the square of the spacing.
    level = COMPOSED_LEVEL - int(0.5 * math.log2(width / COMPOSED_WIDTH))
    for mechanism, count in parts:
        if has_pair_without_loss(mechanism):
            continue
        if not isinstance(mechanism, m.RandomAllocation):
            pair = loss_distributions.grid_loss_distribution(mechanism, direction)
            above.append((pair.upper, float(count)))
            below.append((pair.lowers[0], float(count)))
            sums.append(below[-1])
            continue
        for steps, times in divide_allocation_into_blocks(mechanism.steps, mechanism.selected):
            if steps == 1:
                above.append(
                    (
                        loss_distributions.grid_loss_distribution(mechanism.mechanism, direction).upper,
                        float(times * count),
                    )
                )
                continue
            found = allocation_atoms.build_finest_allocation(mechanism.mechanism, steps, floor, level, work)
            if found is None or not found.upper.is_proper_allocation:
                return None
            above.append((found.upper.as_grid_of_allocation(direction), float(times * count)))
            if mechanism.selected == 1 and found.lower.is_proper_allocation:
                below.append((found.lower.as_grid_of_allocation(direction), float(count)))
                sums.append(below[-1])
        if mechanism.selected > 1:
            share = (Range(mechanism.selected) / mechanism.steps).lo
            pair = loss_distributions.grid_loss_distribution(m.PoissonSampled(mechanism.mechanism, share), direction)
            below.append((pair.lowers[0], float(count)))
            sums.append((_build_sum_of_allocation(mechanism, direction) or pair.lowers[0], float(count)))
    _, upper, budget, _, _ = ask(above, width, points)
    choices = (below,) if sums == below else (below, sums)
    lower = max(ask(losses, width, points)[0] for losses in choices) if below else 0.0
    lower, upper = max(lower, 0.0), max(upper, 0.0)
    return lower, upper, {**budget, "discretisation": measure_width_of_engine_bound(lower, upper)}


def _build_sum_of_allocation(mechanism: m.RandomAllocation, direction: Direction) -> GridLaw | None:
    """Returns the distribution of the sum of an allocation's outputs (allocation.md section 1).

    The sum is a Gaussian mechanism. Returns None if the steps are not Gaussian, or if the noise is too large.
    """
    if not isinstance(mechanism.mechanism, m.Gaussian):
        return None
    noise = _compute_noise_of_allocation_sum(mechanism)
    return loss_distributions.grid_loss_distribution(m.Gaussian(noise), direction).lowers[0] if noise < 1e300 else None


def _compute_noise_of_allocation_sum(mechanism: m.RandomAllocation) -> float:
    """Returns the noise multiplier of the sum of all outputs, rounded up."""
    assert isinstance(mechanism.mechanism, m.Gaussian)
    sigma, steps = mechanism.mechanism.noise_multiplier, mechanism.steps
    return (Range(sigma) * math.sqrt(steps) * (1 + 2**-51) / mechanism.selected).hi


def divide_allocation_into_blocks(steps: int, selected: int) -> list[tuple[int, int]]:
    """Divides the steps into ``selected`` blocks of nearly equal sizes.

    Returns each size with the number of blocks that have it.
    """
    size, larger = divmod(steps, selected)
    return [one for one in ((size, selected - larger), (size + 1, larger)) if one[1]]


def _bound_allocation_by_formulas(
    parts: Parts, direction: Direction, most: float, ask: Callable[[Parts], Bound]
) -> tuple[float, float]:
    """Returns bounds from compositions with a formula, or 0 and ``most`` if there are none."""
    upper = min((ask(one).upper for one in _list_formulas_above_allocation(parts, direction)), default=most)
    return max((ask(one).lower for one in _list_formulas_below_allocation(parts, direction)), default=0.0), upper


def _list_formulas_above_allocation(parts: Parts, direction: Direction) -> list[Parts]:
    """Returns a list that holds a composition which dominates ``parts``, or an empty list if it has no formula.

    In this composition each record takes part in known steps, as many as the allocations select.
    """
    found = tuple(
        (mechanism.mechanism, count * mechanism.selected)
        if isinstance(mechanism, m.RandomAllocation)
        else (mechanism, count)
        for mechanism, count in parts
    )
    return _keep_allocation_with_formula(Composition(found).parts, direction)


def _list_formulas_below_allocation(parts: Parts, direction: Direction) -> list[Parts]:
    """Returns compositions that ``parts`` dominates and that have a formula.

    They are single steps and, for Gaussians, sums over the steps.
    """
    found: list[Parts] = []
    for mechanism, count in parts:
        if not isinstance(mechanism, m.RandomAllocation):
            continue
        inner, steps, selected = mechanism.mechanism, mechanism.steps, mechanism.selected
        share = (Range(selected) / steps).lo
        found += _keep_allocation_with_formula(((m.PoissonSampled(inner, share), 1),), direction)
        if isinstance(inner, m.Gaussian):
            noise = _compute_noise_of_allocation_sum(mechanism)
            if noise < 1e300:
                found.append(((m.Gaussian(noise), count),))
    return found


def _list_largest_allocation_products(parts: Parts, direction: Direction) -> list[tuple[Parts, Range]]:
    """Returns compositions with a formula that bound delta from below, each with log N.

    N is the number of ways to choose the steps, either of one allocation or of all parts together. The likelihood ratio
    of the allocation is a mean over these N choices. The term of a choice is the product of the ratios of its steps, so
    the mean is at least the largest product divided by N. Each returned composition has such a product as its
    likelihood ratio. The delta of the composition at (epsilon + log N) is a lower bound of the delta of ``parts`` at
    epsilon.
    """
    if direction != "remove":
        return []
    found: list[tuple[Parts, Range]] = []
    whole = Range(0.0)
    for mechanism, count in parts:
        if isinstance(mechanism, m.RandomAllocation):
            choices = _log_choices_of_allocation(mechanism.steps, mechanism.selected)
            whole += count * choices
            alone = ((mechanism.mechanism, mechanism.selected),)
            found += [(one, choices) for one in _keep_allocation_with_formula(alone, direction)]
    return found + [(one, whole) for one in _list_formulas_above_allocation(parts, direction)]


def _ask_coarse_allocation_curve(parts: Parts, direction: Direction, floor: float) -> PrivacyCurve | None:
    """Returns the curve of one allocation of several steps, from likelihood ratios on a coarse grid; or None.

    Returns None for Gaussians, because their ratios spread over too many cells.
    """
    (mechanism, count), *rest = parts
    if rest or count > 1 or not isinstance(mechanism, m.RandomAllocation) or mechanism.selected == 1:
        return None
    if isinstance(mechanism.mechanism, m.Gaussian):
        return None
    return allocation_atoms.build_coarse_allocation_curve(
        mechanism.mechanism, mechanism.steps, mechanism.selected, direction, floor
    )


def _log_choices_of_allocation(steps: int, selected: int) -> Range:
    """Returns the logarithm of the number of ways to select the steps, or a slightly larger bound.

    The larger bound is the entropy bound on ln C(steps, selected). It is returned if more than ``_FEW_SELECTED`` steps
    are selected and more than ``_FEW_SELECTED`` are not.
    """
    few = min(selected, steps - selected)
    if few <= _FEW_SELECTED:
        return log(Range(math.comb(steps, few) * (1 - 2.0**-50), math.comb(steps, few) * (1 + 2.0**-50)))
    return few * log(Range(steps) / few) + (steps - few) * log(Range(steps) / (steps - few))


_FEW_SELECTED = 16
"""Number of selected steps up to which the choices are counted. The count is a finite double for up to 2^53 steps."""


def _list_allocation_score_sums(parts: Parts, direction: Direction) -> list[allocation_sums.AllocationScoreSums]:
    """Returns a lower bound (``sums.py``) for each Gaussian allocation that selects several steps.

    The adversary of such a bound sees only the sum of the integer scores of all outputs. The sums only raise lower
    ends, so they are left out once the question's budget of work is spent. All computations of one question share the
    sums, whose work is charged once.
    """
    found = []
    for mechanism, count in parts:
        if not (isinstance(mechanism, m.RandomAllocation) and isinstance(mechanism.mechanism, m.Gaussian)):
            continue
        sigma, steps = mechanism.mechanism.noise_multiplier, mechanism.steps * count
        usual = allocation_sums.LEAST_SIGMA <= sigma <= allocation_sums.MOST_SIGMA
        served = mechanism.selected > 1 and usual and steps <= allocation_sums.MOST_STEPS
        setting = sigma, steps, mechanism.selected * count, direction
        with share_work_results() as kept:
            if served and setting not in kept and try_to_spend_work(allocation_sums.UNITS):
                kept[setting] = allocation_sums.build_allocation_score_sums(*setting)
            if setting in kept:
                found.append(kept[setting])
    return found


def _keep_allocation_with_formula(parts: Parts, direction: Direction) -> list[Parts]:
    """Returns ``[parts]`` if the closed-form engine serves ``parts`` quickly, and otherwise ``[]``."""
    if len(parts) > 1 and any(isinstance(mechanism, m.BoundedRange) for mechanism, _ in parts):
        return []  # for BoundedRange with other mechanisms the formula is a sum over cells, which is too slow here
    return [parts] if closed_form.ENGINE.explain_refusal(parts, direction) is None else []
