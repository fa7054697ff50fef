"""The grid engine, for any composition of losses with atoms, densities or both (docs/theory/grid.md).

Each privacy loss is rounded to a grid twice. The two results are a distribution that dominates the loss, and one that
the loss dominates. Both distributions are multiplied by e^{tilt loss}, where the tilt depends on the question. Then
they are composed by fast Fourier transforms. Many steps are composed in several rounds of ever coarser grids. Every
error is bounded. The grid is refined until the bound has the requested width, or until the grid has as many points as
``max_bytes`` and a limit on time allow. In the second case the bound is wider than requested.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...._core import Budget, grid_delta, grid_deltas, grid_epsilon
from ....mechanisms import MixtureOfGaussians, TruncatedPoissonSampled
from ...pairs.class_members import has_pair_without_loss
from ...pairs.kinds import has_kind_of_mechanism
from ...pairs.replacement import Replaced, Zeroed
from ..closed_form.truncation import charge_sample_truncation
from ..engine_interface import DEFAULT, Bound, Direction, Parts, Request
from . import loss_distributions

BYTES_PER_POINT = 256
"""Bytes of memory per grid point, for masses, weights, spectra and curves of both distributions and for tables of the
transform."""
MOST_POINTS = 1 << 20
"""Number of points of the largest grid. The grids that are tried for one answer may have five times as many points
together, and then take half a second."""
MOST_STEPS = float(2**53)
_MIXTURE_UNITS = 3 * 10**9
"""Largest number of work units for one bound of a composition with mixtures, which is half of the units of a question.
A question about "replace" asks for two such bounds."""


class Grid:
    """Composes loss distributions on grids."""

    name = "grid"

    def explain_refusal(self, parts: Parts, direction: Direction) -> str | None:
        """Returns the reason for the refusal: a mechanism without a loss distribution, or too many steps."""
        if not parts:
            return "nothing was composed"
        for mechanism, count in parts:
            reason = loss_distributions.explain_missing_grid_distribution(mechanism, direction)
            if reason:
                return reason
            if count >= MOST_STEPS:
                return f"it composes fewer than 2^53 steps, not {count}"
        return None

    def epsilon(self, parts: Parts, direction: Direction, delta: float, request: Request = DEFAULT) -> Bound:
        nothing = Bound(0.0, 0.0, self.name)
        with _limit_grid_work(parts, request):
            return _bound_by_grid_distributions(parts, direction, partial(grid_epsilon, delta=delta), request, nothing)

    def delta(self, parts: Parts, direction: Direction, epsilon: float, request: Request = DEFAULT) -> Bound:
        bare = -math.expm1(min(epsilon, 0.0))
        nothing = Bound(bare * (1 - 2**-51), min(1.0, bare * (1 + 2**-51)), self.name)
        with _limit_grid_work(parts, request):
            return _bound_by_grid_distributions(
                parts, direction, partial(grid_delta, epsilon=epsilon), request, nothing
            )

    def bound_grid_deltas_from_above(
        self, parts: Parts, direction: Direction, epsilons: NDArray[np.float64], request: Request = DEFAULT
    ) -> NDArray[np.float64]:
        """Returns upper bounds of delta at ascending epsilons, from as few compositions as possible."""
        pairs = _list_grid_distributions(parts, direction)
        if not pairs:
            return -np.expm1(np.minimum(epsilons, 0.0)) * (1 + 2**-51)
        upper = [(pair.upper, count) for pair, count in pairs]
        return grid_deltas(upper, epsilons, request.width, 0.0, _limit_grid_points(request))[1]


ENGINE = Grid()


def _list_grid_distributions(
    parts: Parts, direction: Direction
) -> list[tuple[loss_distributions.BoundingDistributions, float]]:
    """Returns the loss distributions of the parts that reveal something, with the counts of the parts."""
    for mechanism, _ in parts:
        inner = mechanism.mechanism if isinstance(mechanism, (Replaced, Zeroed)) else mechanism
        if isinstance(inner, TruncatedPoissonSampled):
            charge_sample_truncation(inner.sampling_probability, inner.batch_size, inner.dataset_size)
    return [
        (loss_distributions.grid_loss_distribution(mechanism, direction), float(count))
        for mechanism, count in parts
        if not has_pair_without_loss(mechanism)
    ]


def _limit_grid_work(parts: Parts, request: Request) -> AbstractContextManager[None]:
    """Returns a context that bounds the work for compositions with mixtures of Gaussians, in one direction.

    Mixtures whose shifts are many standard deviations may need more points than any grid has. The work is not limited
    if the requested width is below the default, because then the user has asked for an accurate answer.
    """
    limited = request.width >= DEFAULT.width and has_kind_of_mechanism(parts, MixtureOfGaussians)
    return Budget(_MIXTURE_UNITS) if limited else nullcontext()


def _limit_grid_points(request: Request) -> int:
    """Returns the largest number of grid points for the memory of the request."""
    return min(MOST_POINTS, max(64, request.max_bytes // BYTES_PER_POINT))


def _bound_by_grid_distributions(
    parts: Parts, direction: Direction, ask: Callable[..., Any], request: Request, nothing: Bound
) -> Bound:
    """Returns a bound from composing the loss distributions of all parts.

    If all these distributions are exact, or if only the upper end is requested, the dominating distributions are
    composed and give both ends. Otherwise they give the upper end alone. The dominated distributions are composed by
    themselves. If a part has several of them, they are tried in turn, and the lower end is the largest result. If no
    part reveals anything, the bound is ``nothing``.
    """
    pairs = _list_grid_distributions(parts, direction)
    if not pairs:
        return nothing
    upper_losses = [(pair.upper, count) for pair, count in pairs]
    points = _limit_grid_points(request)
    if request.above or all(pair.lowers == (pair.upper,) for pair, _ in pairs):
        lower, upper, budget, _, _ = ask(upper_losses, width=request.width, most_points=points)
        return Bound(lower, upper, ENGINE.name, budget)
    choices = range(max(len(pair.lowers) for pair, _ in pairs))
    lower_losses = [[(pair.lowers[i % len(pair.lowers)], count) for pair, count in pairs] for i in choices]
    # The distance between the upper and the lower pairs decides how accurate each answer needs to be.
    width = min(max(request.width, _ROUGH), _COARSE)
    _, upper, budget, _, _ = ask(upper_losses, width=width, most_points=points)
    lowers = [ask(losses, width=width, most_points=points)[0] for losses in lower_losses]
    apart = (upper - max(lowers)) / upper if 0 < upper < math.inf else 0.0
    finer = min(apart * _SHARE, _QUOTED)
    if request.width < DEFAULT.width or finer < request.width:  # a width that was asked for explicitly is met
        finer = request.width
    if finer < width:
        _, upper, budget, _, _ = ask(upper_losses, width=finer, most_points=points)
        near = max(lowers) - 2 * width * upper
        for i, losses in enumerate(lower_losses):
            if lowers[i] >= near:
                lowers[i] = max(lowers[i], ask(losses, width=finer, most_points=points)[0])
    return Bound(max(lowers), upper, ENGINE.name, budget)


_ROUGH, _COARSE = 1e-3, 1e-2
"""Smallest and largest relative width of the first answers if the upper and lower pairs differ. These answers take a
tenth of the time of the default width."""
_SHARE = 1e-2
"""Width of each final answer, divided by the distance between the upper and lower pairs. A smaller width would hardly
change the interval."""
_QUOTED = 1e-4
"""Largest relative width of a final answer about one pair, even if the pairs are far apart. The upper end should be
this accurate, because it is quoted alone."""
