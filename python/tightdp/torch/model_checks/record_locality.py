"""Measures how far one record moves the sums of clipped gradients before noise.

The account assumes that one record moves the sums by at most the norm bound, to which gradients are clipped.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..batches.batch_places import BatchPlaces, RecordIndices
from ..batches.record_reader import (
    AloneRead,
    describe_batch_record_form,
    group_batch_records_by_form,
    join_collated_records,
)
from ..plan.plan import Plan

ROUNDING, LAST_BITS = 2.0**-10, 2.0**-20
"""Tolerances, as multiples of the norm bound. The first is for float sums. The second is for exact sums, because the
last bits of a single gradient may depend on other records that go through the model at the same time."""

PlacedPart = tuple[Any, int, BatchPlaces | None]
"""Collated records of one form (structure, types and shapes), their number, and their places, which are rows of a
physical batch (None if the records fill all places)."""
Read = Callable[[RecordIndices, int], list[AloneRead]]
"""Function that reads each record alone. The coins (seeds) follow from the record's index and the number of a trial."""
Take = Callable[[list[PlacedPart], int], list[Any]]
"""Function that adds up the clipped gradients of parts. The coins follow from the places in a part and the number of a
trial."""


@dataclass(frozen=True)
class Audit:
    """The findings of ``PrivateRun.audit``, with distances in units of the norm bound.

    ``moved`` has, for each tried record, the distance between the sums with the record and without it. The distance is
    at most 1 if the account is right. ``kept`` has the distance between two sums without the record, one computed
    before a sum with the record and one after that sum. This distance is 0 unless something of the record was kept. If
    a distance is too large, ``arose`` names the code that caused it: "dataset", "collate_fn", "model", "loss_fn", or
    "model or loss_fn" if a trial with a copy of the model cannot tell which of the two. ``no_gradient`` says that the
    gradients of all records were zero or not finite. All findings are as private as the records.

    ``arithmetic`` is the arithmetic of the run, which decides the tolerance for rounding errors.
    ``PrivateRun.audit`` makes the findings, and raises an error for a wrong argument.

    >>> from tightdp.torch import Audit
    >>> Audit(moved=(0.98, 1.0), kept=(0.0, 0.0), arithmetic="exact").ok, Audit((1.5,), (0.0,), "exact").ok
    (True, False)
    """

    moved: tuple[float, ...]
    kept: tuple[float, ...]
    arithmetic: str
    arose: str = ""
    no_gradient: bool = False

    @property
    def ok(self) -> bool:
        """Whether no record moved the sums by more than the account assumes, and nothing of a record was kept."""
        return _is_within_record_locality(max(self.moved), max(self.kept), self.arithmetic)

    def __str__(self) -> str:
        worst = f"one record moved the sums by up to {max(self.moved):.4g} norm bounds, where 1 is accounted for"
        kept = f"and what it left by {max(self.kept):.4g}"
        if not self.ok:
            return f"{worst}, {kept}: the guarantee does not hold, and the error arose in {self.arose or 'some code'}"
        zero = "; but all gradients are zero, and the model would learn from noise alone" if self.no_gradient else ""
        return f"{worst}, {kept}: as it should be{zero}"


def _is_within_record_locality(moved: float, kept: float, arithmetic: str) -> bool:
    """Tells whether a record moved the sums by at most the norm bound and left no trace, up to the tolerance."""
    slack = ROUNDING if arithmetic == "float" else LAST_BITS
    return moved <= 1 + slack and kept <= slack


class _LocalityTrial:
    """A trial of an audit, which reads the records three times.

    The tried record is left out the first time, is at position ``at`` the second time, and is left out again the third
    time.
    """

    def __init__(
        self, read: Read, others: RecordIndices, tried: int, at: int, number: int, *, one_by_one: bool
    ) -> None:
        everyone = np.insert(others, at, tried)
        self._at, self._number = at, number
        self._without, self._among, self._again = (read(rows, number) for rows in (others, everyone, others))
        forms = [describe_batch_record_form(one.batch) for one in self._among]
        # If records go one after the other, each record is a part of its own, at place 0. So all parts have
        # the same coins.
        self._groups = [[i] for i in range(len(forms))] if one_by_one else group_batch_records_by_form(forms)
        self._forms = forms[:at] + forms[at + 1 :]

    def measure_locality_trial(self, plan: Plan, take: Take) -> tuple[float, float, bool]:
        """Returns the record's distances ``moved`` and ``kept`` (``Audit``), and whether any sum is not zero."""
        before = take(self._place_others_of_locality_trial(self._without), self._number)
        there = take([self._join_group_of_locality_trial(self._among, group) for group in self._groups], self._number)
        after = take(self._place_others_of_locality_trial(self._again), self._number)
        some = any(bool(total.any()) for total in (*before, *there))
        return _measure_locality_distance(plan, before, there), _measure_locality_distance(plan, before, after), some

    def find_reader_without_record_locality(self) -> str:
        """Returns the code whose results for other records changed: "dataset", "collate_fn", or "" for neither."""
        among = self._among[: self._at] + self._among[self._at + 1 :]
        times = list(zip(self._without, among, self._again, strict=True))
        if any(not one.raw == other.raw == last.raw for one, other, last in times):
            return "dataset"
        if any(not one.collated == other.collated == last.collated for one, other, last in times):
            return "collate_fn"
        return ""

    def _place_others_of_locality_trial(self, reads: list[AloneRead]) -> list[PlacedPart]:
        """Returns the parts without the tried record. Each other record keeps its place, and therefore its coins.

        If the form of a record has changed, records cannot keep their places, and are grouped anew.
        """
        forms = [describe_batch_record_form(one.batch) for one in reads]
        if forms != self._forms:
            return [self._join_group_of_locality_trial(reads, group) for group in group_batch_records_by_form(forms)]
        return [found for group in self._groups for found in self._leave_out_record(reads, group)]

    def _leave_out_record(self, reads: list[AloneRead], group: list[int]) -> Iterator[PlacedPart]:
        """Yields a part without the tried record. Yields nothing if the part has no other record."""
        where = [place for place, i in enumerate(group) if i != self._at]
        if where:
            batch, records, _ = self._join_group_of_locality_trial(
                reads, [group[k] - (group[k] > self._at) for k in where]
            )
            yield batch, records, BatchPlaces(np.array(where), len(group)) if len(where) < len(group) else None

    def _join_group_of_locality_trial(self, reads: list[AloneRead], group: list[int]) -> PlacedPart:
        return join_collated_records([reads[i].batch for i in group]), len(group), None


def measure_record_locality(
    read: Read, take: Take, copy_model: Callable[[bool], Take], plan: Plan, rows: RecordIndices, tried: int
) -> Audit:
    """Measures the distances for each of the last ``tried`` records.

    Each record is tried at three positions: before the other records, in the middle of them, and after them. Each of
    these three trials has its own coins. ``copy_model(outputs)`` returns a function that takes records through
    a copy of the model, made before the audit. If ``outputs`` is True, this function uses a loss that is computed from
    the outputs of the model alone. Otherwise it uses the loss function of the user.
    """
    last, moved, kept, arose, some = len(rows) - 1, [], [], "", False
    places = sorted({0, len(rows) // 2, last})
    for i in range(tried):
        found = []
        for k, at in enumerate(places):
            others, number = np.delete(rows, last - i), i * len(places) + k
            trial = _LocalityTrial(read, others, rows[last - i], at, number, one_by_one=plan.arithmetic == "one-by-one")
            found.append(trial.measure_locality_trial(plan, take))
            if not arose and not _is_within_record_locality(*found[-1][:2], plan.arithmetic):
                arose = trial.find_reader_without_record_locality() or _find_faulty_model_or_loss(
                    trial, plan, copy_model
                )
        moved.append(max(each[0] for each in found))
        kept.append(max(each[1] for each in found))
        some = some or any(each[2] for each in found)
    return Audit(tuple(moved), tuple(kept), plan.arithmetic, arose, not some)


def _find_faulty_model_or_loss(trial: _LocalityTrial, plan: Plan, copy_model: Callable[[bool], Take]) -> str:
    """Returns "model" if a copy's outputs depend too much on the record, and "loss_fn" if only its losses do.

    If neither does, or if the copy fails, returns "model or loss_fn".
    """
    try:
        outputs, losses = (trial.measure_locality_trial(plan, copy_model(outputs))[:2] for outputs in (True, False))
    except Exception:  # the user's code fails, or the sums cannot use the outputs
        return "model or loss_fn"
    if not _is_within_record_locality(*outputs, plan.arithmetic):
        return "model"
    return "model or loss_fn" if _is_within_record_locality(*losses, plan.arithmetic) else "loss_fn"


def copy_model_if_possible(model: Any) -> Any:
    """Returns a copy of the model, or the model itself if it holds something that cannot be copied."""
    try:
        return copy.deepcopy(model)
    except Exception:  # modules of the user may raise any error
        return model


def make_loss_for_record_locality(loss_fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Returns a loss function whose loss is the sum of squares of the model's outputs.

    The new function calls ``loss_fn`` to get these outputs, with one record at a time.
    """

    def compute_record_locality_loss(model: Any, batch: Any) -> Any:
        """Returns the loss of one record. Raises ValueError if ``loss_fn`` does not call the model."""
        outputs: list[Any] = []
        hook = model.register_forward_hook(lambda module, given, output: outputs.append(output))
        try:
            loss_fn(model, batch)
        finally:
            hook.remove()
        squares = [tensor.square().sum().reshape(1) for tensor in _list_locality_tensors(outputs)]
        if not squares:
            raise ValueError("loss_fn must call the model for its outputs to be compared")
        return sum(squares[1:], squares[0])

    return compute_record_locality_loss


def _list_locality_tensors(x: Any) -> list[Any]:
    """Returns the floating-point tensors in a model's outputs."""
    if isinstance(x, torch.Tensor):
        return [x] if x.is_floating_point() else []
    inner = x.values() if isinstance(x, Mapping) else x if isinstance(x, (list, tuple)) else ()
    return [tensor for each in inner for tensor in _list_locality_tensors(each)]


def _measure_locality_distance(plan: Plan, one: list[Any], other: list[Any]) -> float:
    """Returns the L2 distance of two sums, divided by the norm bound.

    If each parameter has its own norm bound, the result is the largest of the parameters' ratios.
    """
    squares = [float((a - b).square().sum()) for a, b in zip(one, other, strict=True)]
    if len(plan.max_norm) == 1:
        return math.sqrt(sum(squares)) / plan.max_norm[0]
    return max(math.sqrt(square) / bound for square, bound in zip(squares, plan.max_norm, strict=True))
