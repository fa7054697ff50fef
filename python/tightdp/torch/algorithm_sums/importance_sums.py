"""The sums of the algorithm DPIS, which scales all gradients to one norm (docs/theory/dpis.md).

The terms are C g / |g|, where g is the gradient of a record and C the norm bound. A step draws some records, the
candidates, with probabilities from bounds on |g|. Then it takes some of the candidates, with probabilities from |g|.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..batches.batch_places import BatchPlaces
from ..batches.importance_loader import ImportanceCandidates
from ..ghost_clipping.clipping import CLIPPING_SLACK, OnePassSums
from ..gradient_sums.exact_sums import ExactSums
from ..plan.plan import Plan

LEAST_NORM = 1e-100
"""Number that the kernel adds to norms before it divides by them. It is the smallest number that the kernel accepts."""
Norms = npt.NDArray[np.float64]
"""Norms of the gradients of some records."""


class ExactUnitSums(ExactSums):
    """The integer sums of C g / |g| over the candidates that the step takes."""

    def __init__(self, plan: Plan, parameters: dict[str, Any], candidates: ImportanceCandidates) -> None:
        super().__init__(plan, parameters)
        self.candidates = candidates

    def find_importance_norms(
        self, model: Any, loss_fn: Any, batch: Any, records: int, places: BatchPlaces | None = None
    ) -> Norms:
        """Returns the norms of the records' gradients. The copies that fill up a physical batch are left out."""
        found = self._yield_gradients_to_sum(model, loss_fn, batch, records, places)
        return np.concatenate(
            [_compute_importance_norms(rows)[_select_importance_rows(weights)] for rows, weights in found]
        )

    def _add_clipped_to_gradient_sums(self, rows: list[Any], weights: Any = None) -> None:
        norms, chosen = _compute_importance_norms(rows), _select_importance_rows(weights)
        taken = np.zeros(len(norms))
        taken[chosen] = self.candidates.select_importance_loader_rows(norms[chosen])
        self._clip_and_add_to_gradient_sums(
            rows, self._plan.max_norm[0], weights=taken, normalize=True, stability=LEAST_NORM
        )


class OnePassUnitSums(OnePassSums):
    """The float sums of C g / |g| over the candidates that the step takes, without forming single gradients."""

    def __init__(self, plan: Plan, parameters: dict[str, Any], candidates: ImportanceCandidates) -> None:
        super().__init__(plan, parameters)
        self.candidates = candidates

    @torch.no_grad()
    def find_importance_norms(
        self, model: Any, loss_fn: Any, batch: Any, records: int, places: BatchPlaces | None = None
    ) -> Norms:
        with torch.enable_grad():
            factors = self._find_factors(model, loss_fn, batch, records)
        zero = torch.zeros(records, dtype=torch.float64, device=self._totals[0].device)
        squares = sum((each.bound_squared_factor_norms() for each in factors.values()), zero)
        return _convert_importance_norms(torch.as_tensor(squares).sqrt())

    def _weigh_gradients_for_ghost_clipping(self, norms: Any, bound: float) -> Any:
        taken = torch.from_numpy(self.candidates.select_importance_loader_rows(_convert_importance_norms(norms))).to(
            norms.device
        )
        return torch.where(taken, bound * (1 - CLIPPING_SLACK) / norms, torch.zeros_like(norms))


def _select_importance_rows(weights: Any) -> Any:
    """Returns an index of the rows of records. The other rows are copies that fill up a physical batch."""
    return slice(None) if weights is None else weights > 0


def _compute_importance_norms(rows: list[Any]) -> Norms:
    """Returns the norms of gradients, computed on the host, where the order of addition depends on the row alone."""
    squares = sum(
        torch.linalg.vector_norm(row.to("cpu").flatten(1), dim=1, dtype=torch.float64).square() for row in rows
    )
    return _convert_importance_norms(torch.as_tensor(squares).sqrt())


def _convert_importance_norms(norms: Any) -> Norms:
    found: Norms = norms.to("cpu", torch.float64).numpy()
    return found
