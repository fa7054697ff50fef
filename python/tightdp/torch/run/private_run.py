"""A private training run: its loader, its steps and its account."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import chain, count, islice
from typing import Any

import numpy as np
import torch

from ..._support import _check
from ..._support.process_owner import ProcessOwner
from ...algorithms.adaclip import AdaCliP
from ...bound import Bound
from ...clipping_and_noise.noise import RandomSource
from ...composition import Composition
from ...ledger import Ledger
from ...mechanisms import Mechanism
from ...statement import Statement
from ..algorithm_sums.centered_sums import MomentsState, make_moments_of_centered_sums
from ..algorithm_sums.importance_sums import ExactUnitSums, OnePassUnitSums
from ..algorithm_sums.step_sums import StepSumMaker
from ..batches import collated_batch
from ..batches.batch_places import RecordIndices
from ..batches.importance_loader import ImportanceLoader
from ..batches.poisson_loader import AUDIT_READS, LOOK_READS, Batch, RunLoader
from ..batches.record_reader import AloneRead
from ..gradient_sums.base_sums import GradientSums
from ..gradient_sums.released_loss import LOSS_STREAMS, LossSum, MeanLoss
from ..model_checks import model_checks
from ..model_checks.frozen_state import Copies, check_model_unchanged
from ..model_checks.record_locality import (
    Audit,
    PlacedPart,
    Take,
    copy_model_if_possible,
    make_loss_for_record_locality,
    measure_record_locality,
)
from ..model_checks.self_test import (
    check_model_on_first_record,
    check_self_test_gradients_repeat,
    compare_with_autograd_in_self_test,
    find_autograd_gradient_for_self_test,
    take_single_records_for_self_test,
    warn_of_zero_self_test_gradient,
)
from ..plan.algorithm_settings import TITLES
from ..plan.norm_share_account import NormShareAccount, release_norm_share_of_plan
from ..plan.plan import Plan
from ..plan.run_account import RunAccount
from ..randomness.global_generators import (
    draw_check_order_from_generator,
    find_device_of_model_generators,
    run_uncompiled,
    seed_loss_function,
    seed_model_pass,
)
from ..randomness.process_group import Fact, World
from ..randomness.run_key import NOISE, RunKey
from . import run_state, run_statement
from .saved_run import SavedRun

LossFunction = Callable[[Any, Any], Any]
"""Function of a model and a collated batch that returns one loss for each record, of shape (records,)."""
Parts = Iterator[tuple[Any, int]]
"""Iterator over physical batches, which are records that go through the model together. An item consists of collated
records and their number."""


class PrivateRun:
    """The private training of a model. ``make_private`` makes the run, and does not wrap the model.

    ``loader`` yields Poisson batches, and one iteration over it is an epoch. ``step`` clips the gradient of each
    record, adds up the clipped gradients, adds noise once, and lets the optimizer take a step. The optimizer gets noisy
    gradients of the parameters and nothing else from a step. A step returns no loss and no batch size.

    A step is charged before its sums are computed. The step may then fail, because memory runs out or ``loss_fn``
    raises an error. In this case it stays charged, nothing is released, and parameters and gradients are as before. The
    failure itself may reveal something about a record, and therefore it ends the run. ``AfterFailure`` and
    ``load_state_dict`` say how such a run can go on.

    The arguments ``account``, ``key``, ``identity``, ``world``, ``ledger`` and ``saved`` come from ``make_private``,
    which checks them. Make no run without ``make_private``.

    >>> import torch
    >>> from tightdp.torch import make_private
    >>> x = torch.linspace(-1, 1, 500)[:, None]
    >>> data = torch.utils.data.TensorDataset(x, 2 * x)
    >>> model = torch.nn.Linear(1, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> run = make_private(model, optimizer, data, epsilon=2.0, delta=1e-5, batch_size=50, epochs=2, max_norm=1.0,
    ...                    public_size=500)
    >>> def loss_fn(model, batch):  # one loss for each record
    ...     x, y = batch
    ...     return (model(x) - y).square().sum(1)
    >>> run.audit(loss_fn).ok
    True
    >>> run.step(loss_fn, next(iter(run.loader)))
    >>> saved = run.state_dict()
    >>> run.fit(loss_fn).epsilon() <= 2.0, run.steps_
    (True, 20)
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        account: RunAccount,
        loader: RunLoader,
        key: RunKey,
        identity: str,
        *,
        world: World,
        ledger: Ledger | None,
        saved: SavedRun,
    ) -> None:
        self._model, self._optimizer, self._loader = model, optimizer, loader
        self._account, self._key, self._world, self._ledger = account, key, world, ledger
        self._names: tuple[str, ...] = ()
        self._sums: GradientSums | None = None
        self._copies: Copies = {}
        self._most_numbers, self._structure = 0, None
        self._busy, self._coins, self._owner = threading.Lock(), loader._coins, ProcessOwner()
        self._passes = count()
        self._identity, self._saved, self._finished = identity, saved, 0
        size = sum(p.numel() for p in self._check_run_parameters().values())
        plan = self.plan
        self._moments = make_moments_of_centered_sums(plan, size) if isinstance(plan.settings, AdaCliP) else None
        candidates = loader.candidates if isinstance(loader, ImportanceLoader) else None
        self._sum_maker = StepSumMaker(plan, self._moments, candidates)
        self._losses = None if plan.loss is None else LossSum(
            plan.loss, plan.noise_multiplier, plan.divisor, plan.steps_per_epoch, plan.steps
        )  # fmt: skip
        self._learned: dict[str, MomentsState | LossSum] = {}
        """The run's state besides the model, the optimizer and the account. It was computed from releases alone."""
        if self._moments is not None:
            self._learned["moments"] = MomentsState(self._moments)
        if self._losses is not None:
            self._learned["losses"] = self._losses

    @property
    def model(self) -> Any:
        """The model that is trained."""
        return self._model

    @property
    def optimizer(self) -> Any:
        """The optimizer that takes the steps."""
        return self._optimizer

    @property
    def loader(self) -> RunLoader:
        """The loader of Poisson batches. One iteration is an epoch, and the account holds for these batches alone."""
        return self._loader

    @property
    def plan(self) -> Plan:
        """The plan of the run's releases, which was fixed before the run began."""
        return self._account.plan

    @property
    def delta(self) -> float:
        """The delta of the run's guarantee."""
        return self.plan.delta

    @property
    def privacy_(self) -> Bound:
        """Bound on the epsilon of all planned steps at ``delta``. The bound holds at whatever step the run ends."""
        return self.charged_.epsilon(self.delta)

    @property
    def charged_(self) -> Composition:
        """Charge of the run, which covers all planned steps."""
        return self.plan.charged

    @property
    def history_(self) -> tuple[Mechanism, ...]:
        """The mechanisms that were charged so far, in order."""
        return self._account.history

    @property
    def steps_(self) -> int:
        """Number of steps charged so far, at most ``plan.steps``."""
        return self._account.charged_steps

    def epsilon(self, delta: float | None = None, **options: Any) -> Bound:
        """Returns bounds on epsilon for the steps charged so far. The options are those of ``Composition.epsilon``.

        The default of ``delta`` is the run's own. The bound is valid if the number of steps was fixed in advance. For a
        run that is stopped because of what it released, the valid bound is ``privacy_``.
        """
        return self._account.epsilon(delta, **options)

    @property
    def losses_(self) -> tuple[MeanLoss, ...]:
        """The mean losses released so far. The tuple is empty if ``make_private`` got no ``release_loss``."""
        return () if self._losses is None else self._losses.released

    @property
    def ways_(self) -> dict[str, str]:
        """Names the way in which each parameter's gradients, or their norms, were computed in the last step.

        The ways depend on the sizes of the batch, and are therefore as private as the records.
        """
        return {} if self._sums is None else dict(self._sums.gradient_ways)

    @property
    def statement_(self) -> Statement:
        """The statement of the run: what the bound covers, what it assumes and what it leaves out.

        The statement has the hash of the current ``model.state_dict()`` and the name of the data set. The name is the
        one in the ledger, or without a ledger the type of ``dataset``.
        """
        numbers = max(self._most_numbers, sum(p.numel() for p in self._check_run_parameters().values()))
        subject = f"{type(self.model).__name__} trained by {TITLES[type(self.plan.settings)]} in PyTorch"
        return run_statement.make_run_statement(
            subject, self.plan, numbers, self._key.is_seeded, self._ledger, self._identity, self._world.size,
            padded=self.loader.padded, failures=self._account.failures,
            resumed=self._account.resumed and self._world.is_first,
            hashed=run_statement.hash_model_state(self.model),
            dataset=type(self.loader.dataset).__name__,
        )  # fmt: skip

    def step(self, loss_fn: LossFunction, batch: Batch) -> None:
        """Takes one private step on a fresh batch of ``loader``.

        ``loss_fn(model, batch)`` gets collated records and returns one loss for each record, of shape (records,). A
        record contributes nothing if its loss or its gradient is not finite.

        Raises ``BudgetExceeded`` if all planned steps were taken, and ``ValueError`` or ``TypeError`` if the model,
        the optimizer or the batch does not allow private training. Nothing is charged in these cases.
        """
        model_checks.check_model_loss_fn(loss_fn)
        if torch.is_inference_mode_enabled():
            raise RuntimeError("a step must be taken outside of torch.inference_mode(), which computes no gradients")
        with self._exclude_other_steps_of_run(), torch.enable_grad():
            with self._world.run_ranks_together("the start of a step", **self._list_step_facts(batch)):
                self._account.check_planned_run_goes_on()
                self._check_private_run_batch(batch)
                parameters = self._check_run_parameters()
                model_checks.check_model_modules(self.model)
                model_checks.check_optimizer_of_torch_model(self.optimizer)
                model_checks.check_model_parameters_finite(parameters.items())
                if self._account.remaining_steps == 0:
                    self._account.spend()  # raises BudgetExceeded
            with self._account.end_plan_on_error():
                released = self._look_and_release_in_run(loss_fn, parameters, batch)
            self._set_step_gradients(parameters, released)
            self.optimizer.step()
            self._finished += 1

    def _look_and_release_in_run(
        self, loss_fn: LossFunction, parameters: dict[str, Any], batch: Batch
    ) -> Iterable[Any]:
        """Computes the sums over a batch, and returns noisy estimates of the mean gradient."""
        with self._world.run_ranks_together("the first records"):
            before, parts = batch._read_batch_before_draw(), self._move_parts_of_private_run(batch.parts())
            looks = None if before is None else self._move_parts_of_private_run(before)
            new = self._sums is None or not self._sums.has_gradient_sums_for(parameters)
            if new or self.steps_ % self.plan.steps_between_looks == 0:
                parts, looks = self._test_first_record_in_run(loss_fn, parameters, parts, looks, new=new)
        if looks is not None:
            look = partial(self._look_at_norms_in_private_run, loss_fn, parameters, looks, batch)
            account, loader = self._account, self.loader
            if (
                isinstance(account, NormShareAccount)
                and isinstance(loader, ImportanceLoader)
                and account.must_release_share
            ):
                release_norm_share_of_plan(
                    account,
                    self._world,
                    loader.candidates.make_noise_source_of_importance_batch(account.charged_sums),
                    look,
                )
            else:
                look()
        with self._world.run_ranks_together("the sums of a step"):
            self._account.spend()
            sums = self._begin_step_sums_of_private_run(parameters)
            losses = self._losses
            with self._begin_pass_of_private_run(loss_fn, values=sums.is_one_by_one) as loss:
                if losses is not None:
                    losses.begin_step_of_released_loss()
                    loss = losses.watch_losses(loss)
                for (part, records), last in _mark_last_part_of_run(parts):
                    places = next(batch._places, None)
                    sums.add(self.model, loss, part, records, places, last=last)
                    if losses is not None:
                        losses.add_to_released_loss(records, None if sums.is_one_by_one else places)
        if isinstance(sums, (ExactUnitSums, OnePassUnitSums)):
            sums.candidates.renew_importance_bounds(self._world)
        released = self._release_run_sums(sums)
        if losses is not None:
            losses.release_step_loss(
                self.steps_, self._key.make_run_key_source(LOSS_STREAMS + self.steps_), self._world
            )
        return released

    def fit(self, loss_fn: LossFunction, callback: Callable[[int, int], object] | None = None) -> PrivateRun:
        """Takes the remaining steps, and returns the run itself.

        After each step, ``callback`` gets the number of charged steps and of planned steps. It may read ``losses_``,
        whose last entry is the mean training loss that was released last.
        """
        _check.check_function_argument("callback", callback, "done, total", optional=True)
        while self._account.remaining_steps:
            for batch in self.loader:
                self.step(loss_fn, batch)
                if callback is not None:
                    callback(self.steps_, self.plan.steps)
            if self.has_checkpoint:
                self.save()
        return self

    def audit(self, loss_fn: LossFunction, records: int = 16, tried: int = 4) -> Audit:
        """Measures how far one record moves the sums before noise, on the first ``records`` records of the data set.

        The audit tries each of the last ``tried`` of these records. It puts the record before the others, in their
        middle and after them. For each position, it computes the sums without the record, with it, and without it
        again, all with the same seeds. Each sum uses the data set, the collation, the model, the loss and the clipping,
        as a step does. Each position has seeds of its own. If a record moves the sums too far, the audit compares what
        was read and what copies of the model return. Its result says which code caused the difference. Nothing is
        charged and nothing is released. The result is as private as the records, so use made-up records of the same
        form.
        """
        model_checks.check_model_loss_fn(loss_fn)
        n = min(_check.check_count_argument("records", records, least=2), len(self.loader.dataset))
        tried = _check.check_count_argument("tried", tried, most=max(n - 1, 1))
        if n < 2:
            raise ValueError(f"dataset must have at least 2 records for an audit, got {n}")
        with self._exclude_other_steps_of_run(), torch.enable_grad():
            parameters = self._check_run_parameters()
            untouched = copy_model_if_possible(self.model)

            def take_copied(outputs: bool) -> Take:
                taken = make_loss_for_record_locality(loss_fn) if outputs else loss_fn
                model = copy_model_if_possible(untouched)
                copies = dict(model.named_parameters())
                return self._take_private_run_audit_records(taken, model, {name: copies[name] for name in parameters})

            take = self._take_private_run_audit_records(loss_fn, self.model, parameters)
            return measure_record_locality(
                self._read_records_for_run_audit, take, take_copied, self.plan, np.arange(n), tried
            )

    def _read_records_for_run_audit(self, rows: RecordIndices, trial: int) -> list[AloneRead]:
        return self.loader.read_single_record_batches(rows, AUDIT_READS - trial)

    def save(self) -> None:
        """Saves the model and the optimizer in the checkpoint of ``make_private``. ``fit`` calls this every epoch.

        The charges of steps need no call of ``save``: each is in the checkpoint before its step releases anything. A
        run that goes on after a crash starts from the parameters that were saved last. It takes only the steps that
        were not charged yet.
        """
        if not self.has_checkpoint:
            raise RuntimeError("make_private must be given a checkpoint, a folder, where a run saves itself")
        self._check_owner_of_private_run()
        tensors = self._collect_run_tensors()
        with self._world.run_ranks_together("saving"):
            self._saved.save_run_tensors(self.steps_, tensors, self._tensor_file_limit)

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the account, to be saved together with the states of the model and the optimizer."""
        state = run_state.make_run_state(self._identity, self._account, self._check_run_parameters())
        return {**state, **self._export_learned_of_run()}

    def load_state_dict(self, state: Any, *, after_failure: bool = False) -> None:
        """Continues from a saved account.

        Raises ValueError, and charges nothing, for a state of another plan, model or format. Steps that were charged
        stay charged: a run that is ahead of ``state`` does not go back. Batches and noise are drawn anew.
        ``after_failure`` allows the state of a run that an error ended. Such an error may reveal something about a
        record, and the statement says that the run went on after an error.
        """
        self._check_owner_of_private_run()
        before = self.steps_
        run_state.read_name_from_run_state(state, "state")
        for name, part in self._learned.items():
            part.check_state_of_sums(state.get(name))
        of_account = {name: value for name, value in state.items() if name not in self._learned}
        self._identity = run_state.restore_run_state(
            of_account, self._identity, self._account, self._check_run_parameters(), after_failure=after_failure
        )
        if self.steps_ > before:
            self._import_learned_of_run(state)

    @property
    def has_checkpoint(self) -> bool:
        """Whether ``make_private`` got a checkpoint, in which ``save`` puts the model and the optimizer."""
        return self._saved.exists

    def _collect_run_tensors(self) -> dict[str, Any]:
        """Returns the state of the run without its account. All of this state was computed from releases."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            **self._export_learned_of_run(),
        }

    def _export_learned_of_run(self) -> dict[str, Any]:
        return {name: part.export_state() for name, part in self._learned.items()}

    def _import_learned_of_run(self, found: dict[str, Any]) -> None:
        for name, part in self._learned.items():
            part.import_state_of_sums(found.get(name))

    def _restore_run_tensors(self) -> None:
        """Restores the tensors that the checkpoint saved last."""
        found = self._read_run_tensors()
        if found is not None:
            self._load_run_tensors(found)

    def _read_run_tensors(self) -> dict[str, Any] | None:
        return self._saved.read_saved_tensors(
            self._identity, ("model", "optimizer", *self._learned), self._tensor_file_limit
        )

    @property
    def _tensor_file_limit(self) -> int:
        """Largest size of the file of saved tensors, in bytes.

        It is 64 times the size of the model, for the state of the optimizer, plus 64 bytes a step for losses and 64
        MiB.
        """
        tensors = (value for value in self.model.state_dict().values() if isinstance(value, torch.Tensor))
        model = sum(int(each.numel() * each.element_size()) for each in tensors)
        return 64 * model + 64 * self.plan.steps + 2**26

    def _load_run_tensors(self, found: dict[str, Any]) -> None:
        """Restores the tensors of ``_collect_run_tensors``. Raises ValueError for those of another model or "
        "optimizer."""
        try:
            self._import_learned_of_run(found)
            self.model.load_state_dict(found["model"])
            self.optimizer.load_state_dict(found["optimizer"])
        except Exception as error:  # other values may cause any error in PyTorch
            raise ValueError(f"checkpoint must be of this model and optimizer: {str(error)[:2000]}") from None

    def _check_run_parameters(self) -> dict[str, Any]:
        """Returns the trained parameters.

        Raises ValueError if the parameters cannot be trained privately. If each parameter has its own norm bound or
        scale, the parameters must also be the same as in earlier steps.
        """
        found = model_checks.find_trained_parameters(self.model, self.optimizer)
        apart = len(self.plan.max_norm) > 1 or isinstance(self.plan.settings, AdaCliP)
        if apart and self._names and tuple(found) != self._names:
            raise ValueError(
                "model must train the same parameters throughout, where each has a bound or a scale of its own"
            )
        return found

    def _check_private_run_batch(self, batch: Any) -> None:
        """Raises TypeError or ValueError unless the batch is an unused one from this run's loader."""
        if not isinstance(batch, Batch):
            raise TypeError(
                f"batch must come from the run's loader, got {type(batch).__name__}: the account is that of its "
                "Poisson batches. Use `for batch in run.loader: run.step(loss_fn, batch)`"
            )
        if batch.loader is not self.loader:
            raise ValueError("batch must come from the loader of this run, got one of another loader")
        if batch.is_used:
            raise ValueError("batch must be a fresh one, got one that was used: each step needs a draw of its own")

    def _move_parts_of_private_run(self, parts: Parts) -> Parts:
        """Yields the parts on the model's device. Raises ValueError if a part differs from the first in structure."""
        device = find_device_of_model_generators(self.model)
        for part, records in parts:
            found = collated_batch.describe_batch_structure(part)
            self._structure = found if self._structure is None else self._structure
            if found != self._structure:
                raise ValueError(
                    "collate_fn must make the same of every batch: it made other keys, lengths of lists or types than "
                    "of the first one, and each record would see that"
                )
            yield collated_batch.move_batch_to_device(part, device), records

    @contextmanager
    def _begin_pass_of_private_run(self, loss_fn: LossFunction, *, values: bool = True) -> Iterator[LossFunction]:
        """Yields the loss function for one pass of records through the model.

        The global generators are seeded for this pass. An error is raised if the model keeps anything of the records.
        """
        number = next(self._passes)
        with check_model_unchanged(self.model, self._copies, values=values), self._seed_pass_of_private_run(number):
            yield seed_loss_function(loss_fn, self._coins.make_common_seed(number))

    def _seed_pass_of_private_run(self, number: int) -> AbstractContextManager[None]:
        """Makes a context in which the global generators have the seeds of the pass with this number."""
        seed = self._coins.make_model_seed(number, self._world.rank)
        return seed_model_pass(find_device_of_model_generators(self.model), seed, self._coins.make_common_seed(number))

    def _look_at_norms_in_private_run(
        self, loss_fn: LossFunction, parameters: dict[str, Any], parts: Parts, batch: Batch
    ) -> Any:
        """Computes and returns the gradient norms of all records. Renews the norm bounds of the algorithm DPIS."""
        with self._world.run_ranks_together("the norms of all records"):
            sums = self._begin_step_sums_of_private_run(parameters)
            assert isinstance(sums, (ExactUnitSums, OnePassUnitSums))
            with self._begin_pass_of_private_run(loss_fn, values=sums.is_one_by_one) as loss:
                for part, records in parts:
                    places = next(batch._places, None)
                    sums.candidates.note_importance_loader_norms(
                        sums.find_importance_norms(self.model, loss, part, records, places)
                    )
        return sums.candidates.renew_importance_bounds(self._world)

    def _test_first_record_in_run(
        self, loss_fn: LossFunction, parameters: dict[str, Any], parts: Parts, looks: Parts | None, *, new: bool
    ) -> tuple[Parts, Parts | None]:
        """Tests on the first records whether the account is valid for the model and whether gradients can be clipped.

        ``looks`` are the records whose norms are computed before a batch is drawn, or None. Returns ``parts`` and
        ``looks`` with the tested part put back. ``new`` says that these parameters were not tested before. If the step
        has no records, the first record of the data set is tested instead. So whether an unsuitable model is refused at
        the first step does not depend on the draw.
        """
        first = parts if looks is None else looks
        with self._seed_pass_of_private_run(next(self._passes)):
            held = list(islice(first, 1))
            for part, records in held or self._move_parts_of_private_run(self.loader.read_first_record()):
                check_model_on_first_record(self.model, loss_fn, parameters, part, records)
                sums = self._sum_maker.make_step_sums(parameters)
                with self._begin_pass_of_private_run(loss_fn) as loss:
                    sums.check(self.model, loss, part, records)
                self._look_at_gradients_in_run(loss_fn, sums, part, records, new=new)
                self._sums, self._names = sums, tuple(parameters)
        first = chain(held, first)
        return (first, None) if looks is None else (parts, first)

    def _look_at_gradients_in_run(
        self, loss_fn: LossFunction, sums: GradientSums, part: Any, records: int, *, new: bool
    ) -> None:
        """Raises an error if a gradient depends on earlier records or, with ``new``, if a gradient is wrong."""
        singles = take_single_records_for_self_test(part, records)
        order = draw_check_order_from_generator(len(singles), self._coins.make_common_seed(LOOK_READS - self.steps_))
        find = partial(self._find_gradient_in_private_run, loss_fn, sums)
        found = check_self_test_gradients_repeat(find, singles, order)
        if new:
            if not sums.is_one_by_one:  # otherwise autograd itself computed the gradients
                plain = partial(self._find_plain_gradient_in_run, loss_fn, sums)
                compare_with_autograd_in_self_test(find, plain, self.model, singles, found, self.plan.arithmetic)
            warn_of_zero_self_test_gradient(found)

    def _find_gradient_in_private_run(self, loss_fn: LossFunction, sums: GradientSums, one: Any) -> list[Any]:
        """Returns the gradient of a record, computed in the way of ``sums``, with the same seeds at each call."""
        loss = seed_loss_function(loss_fn, self._coins.make_common_seed(0))
        with check_model_unchanged(self.model, self._copies), self._seed_pass_of_private_run(0):
            return sums.find_per_example_gradients(self.model, loss, one, 1)

    def _find_plain_gradient_in_run(self, loss_fn: LossFunction, sums: GradientSums, one: Any, number: int = 0) -> Any:
        """Returns a record's gradient by plain back-propagation, with the seeds of a pass, and its rounding error."""
        loss = seed_loss_function(loss_fn, self._coins.make_common_seed(number))
        with check_model_unchanged(self.model, self._copies), self._seed_pass_of_private_run(number), run_uncompiled():
            found, rounding = find_autograd_gradient_for_self_test(self.model, loss, sums.parameters, one)
        pairs = zip(sums.parameters.values(), found, strict=True)
        return [torch.zeros_like(p)[None] if g is None else g[None] for p, g in pairs], rounding

    def _take_private_run_audit_records(self, loss_fn: LossFunction, model: Any, parameters: dict[str, Any]) -> Take:
        """Returns the function that adds up the clipped gradients of one trial of an audit.

        The coins (seeds) follow from the number of the trial. In every call with that number, a place (row) of a part
        has the same coins.
        """
        sums, device = self._sum_maker.make_plain_step_sums(parameters), find_device_of_model_generators(model)

        def take_parts_for_run_audit(parts: list[PlacedPart], trial: int) -> list[Any]:
            sums.clear_gradient_sums()
            loss = seed_loss_function(loss_fn, self._coins.make_common_seed(AUDIT_READS - trial))
            for part, records, places in parts:
                with check_model_unchanged(model), self._seed_pass_of_private_run(AUDIT_READS - trial):
                    sums.add(model, loss, collated_batch.move_batch_to_device(part, device), records, places)
            return sums.convert_to_floats()

        return take_parts_for_run_audit

    def _begin_step_sums_of_private_run(self, parameters: dict[str, Any]) -> GradientSums:
        """Returns sums that are set to zero: the tested sums, or new sums if there was no record to test."""
        known = self._sums
        sums = (
            known
            if known is not None and known.has_gradient_sums_for(parameters)
            else self._sum_maker.make_step_sums(parameters)
        )
        sums.set_gradient_sum_plan(self._account.current_plan)
        sums.clear_gradient_sums()
        return sums

    def _release_run_sums(self, sums: GradientSums) -> Iterable[Any]:
        return sums.release_mean_gradient(self._make_private_run_noise_source())

    def _make_private_run_noise_source(self) -> RandomSource:
        """Returns the source of the noise for the step charged last.

        Each step has its own stream. If the number of records was released, the noise on this number took the first
        stream.
        """
        return self._key.make_run_key_source(NOISE + self.steps_ - (1 if self.plan.count is None else 0))

    def _list_step_facts(self, batch: Any) -> dict[str, Fact]:
        """Returns the facts on which the processes of a run must agree before a step."""
        return {
            "run": lambda: self._identity,
            "key": lambda: self._key.key_digest,
            "account": lambda: self.steps_,
            "number_of_steps_that_ended": lambda: self._finished,
            "batch": lambda: batch._digest_rows,
            "parameters_that_are_trained": lambda: [
                (name, p.shape) for name, p in self._check_run_parameters().items()
            ],
        }

    def _set_step_gradients(self, parameters: dict[str, Any], released: Iterable[Any]) -> None:
        """Gives the optimizer the released gradients alone. Gradients that other code left in parameters have no noise,
        and are removed."""
        for group in self.optimizer.param_groups:
            for p in group["params"]:
                p.grad = None
        self._most_numbers = max(self._most_numbers, sum(p.numel() for p in parameters.values()))
        for p, gradient in zip(parameters.values(), released, strict=True):
            p.grad = gradient.to(p.device, p.dtype)

    @contextmanager
    def _exclude_other_steps_of_run(self) -> Iterator[None]:
        """Raises RuntimeError if another step of the run is under way, or if another process made the run."""
        self._check_owner_of_private_run()
        if not self._busy.acquire(blocking=False):
            raise RuntimeError("a step of this run is under way, in another thread or in loss_fn: take one at a time")
        try:
            yield
        finally:
            self._busy.release()

    def _check_owner_of_private_run(self) -> None:
        self._owner.check_process(
            "this run",
            "parent and child would each take the steps that were charged once. Make another run in the child, which "
            "is charged anew, or one that goes on from the checkpoint when the parent has ended",
        )

    def __reduce__(self) -> Any:
        raise TypeError("PrivateRun cannot be copied or pickled: each copy would spend the same budget")


def _mark_last_part_of_run(parts: Parts) -> Iterator[tuple[tuple[Any, int], bool]]:
    """Yields each part and whether it is the last one. The next part is read before a part is yielded."""
    held = next(parts, None)
    while held is not None:
        following = next(parts, None)
        yield held, following is None
        held = following
