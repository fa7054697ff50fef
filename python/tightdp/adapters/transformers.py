"""Defines ``PrivateTrainer``, the ``Trainer`` of Hugging Face's ``transformers`` with private steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainerState
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import TrainOutput

from ..torch import Batches, make_private
from ..torch.run.private_run import PrivateRun

_FROM_ARGS = ("batch_size", "batches", "epochs")
"""Parameters of ``make_private`` that follow from the training arguments and the collator."""
STATEMENT = "privacy_statement.json"
"""Name of the statement's file, which is saved beside the model."""


class PrivateTrainer(Trainer):
    """A ``Trainer`` whose ``train`` takes private steps. Its other methods are inherited.

    Parameters
    ----------
    privacy : a mapping of parameters of ``tightdp.torch.make_private``: ``epsilon``, ``delta`` and ``max_norm``, and
        any of ``noise_multiplier``, ``public_size``, ``algorithm``, ``arithmetic``, ``ledger``, ``checkpoint``, ...
    others : as for ``transformers.Trainer``. The expected batch size is ``per_device_train_batch_size`` times
        ``gradient_accumulation_steps`` times the number of processes. At most ``per_device_train_batch_size`` records
        go through the model together. The number of steps follows from ``num_train_epochs``, or is ``max_steps``, which
        needs a ``public_size``.

    ``run`` is the ``PrivateRun`` that ``train`` made, and holds the account and the statement. ``save_model`` writes
    the statement beside the model. Each record is collated separately, and records of equal shape go through the model
    together. Training is fastest if the tokenizer pads all records to one length. ``max_grad_norm`` is not used,
    because ``max_norm`` bounds each record's gradient.

    Guarantee: the model that ``train`` leaves is (epsilon, delta)-DP with respect to ``train_dataset``, as
    ``run.statement_`` says. If ``privacy`` has a ``release_loss``, the training loss is charged for and logged.
    Otherwise the training loss is not released, and is NaN in ``TrainOutput``. The guarantee does not cover the metrics
    that ``evaluate`` computes on ``eval_dataset``.

    Raises ValueError or TypeError, which names the argument, before any record is read.

    docs/howto/transformers.md has a complete example.

    >>> from tightdp.adapters.transformers import PrivateTrainer
    >>> trainer = PrivateTrainer(model, args, train_dataset=data,
    ...                          privacy={"epsilon": 3.0, "delta": 1e-6, "max_norm": 1.0})  # doctest: +SKIP
    >>> trainer.train().metrics["epsilon"]  # doctest: +SKIP
    3.0
    """

    run: PrivateRun | None = None
    control: Any
    state: Any

    def __init__(self, *arguments: Any, privacy: Mapping[str, Any], **others: Any) -> None:
        super().__init__(*arguments, **others)
        if not isinstance(privacy, Mapping):
            raise TypeError(f"privacy must be a mapping of parameters of make_private, got {privacy!r}")
        for name in _FROM_ARGS:
            if name in privacy:
                raise ValueError(f"privacy must leave {name} out: it follows from the training arguments")
        self._privacy = dict(privacy)
        self._check_transformers_arguments()

    def train(
        self, resume_from_checkpoint: Any = None, trial: Any = None, ignore_keys_for_eval: list[str] | None = None
    ) -> TrainOutput:
        """Takes all private steps. This method can be called once. Leave out ``resume_from_checkpoint`` and ``trial``.

        ``ignore_keys_for_eval`` is as for ``transformers.Trainer``. Returns a ``TrainOutput`` whose metrics are epsilon
        and delta.
        """
        if resume_from_checkpoint:
            raise ValueError("resume_from_checkpoint must be left out: give privacy={'checkpoint': a folder}")
        if trial is not None:
            raise ValueError("trial must be left out: each trial releases a model, and none of them is charged here")
        if self.run is not None:
            raise RuntimeError(
                "train was called before, and another run would start from what that one released: its statement would "
                "leave that out. Make another trainer with a fresh model, or with privacy={'checkpoint': a folder} to "
                "go on"
            )
        run = self.run = self._make_transformers_run()
        self.create_scheduler(num_training_steps=run.plan.steps)
        self._begin_transformers_training(run)
        while run.steps_ < run.plan.steps and not self.control.should_training_stop:
            self._take_transformers_epoch(run, ignore_keys_for_eval)
        if run.has_checkpoint:
            run.save()
        self.control = self.callback_handler.on_train_end(self.args, self.state, self.control)
        self.is_in_train = False
        loss = run.losses_[-1].mean if run.losses_ else math.nan
        return TrainOutput(run.steps_, loss, {"epsilon": run.privacy_.upper, "delta": run.delta})

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Saves the model, and beside it the statement of the run that trained it.

        ``output_dir`` is the folder. None stands for the folder that the training arguments name.
        """
        super().save_model(output_dir, _internal_call)
        if self.run is not None and self.args.should_save:
            place = Path(self.args.output_dir if output_dir is None else output_dir)
            (place / STATEMENT).write_text(self.run.statement_.to_json() + "\n", encoding="utf-8")

    def _check_transformers_arguments(self) -> None:
        """Raises ValueError for training arguments that private steps do not support."""
        wrong = {
            "fp16": (self.args.fp16, "False: take bf16, whose gradients need no scale"),
            "load_best_model_at_end": (self.args.load_best_model_at_end, "False: the last model is what is charged"),
            "max_steps": (
                self.args.max_steps > 0 and self._privacy.get("public_size") is None,
                "left out, or privacy must have a public_size: how often a record takes part depends on it",
            ),
        }
        for name, (given, accepted) in wrong.items():
            if given:
                raise ValueError(f"{name} must be {accepted}")

    def _make_transformers_run(self) -> PrivateRun:
        """Returns a new private run, which starts from the model's current state. The first step spends the charge."""
        arguments, loader = self.args, self.get_train_dataloader()
        size = arguments.per_device_train_batch_size
        expected = size * arguments.gradient_accumulation_steps * arguments.world_size
        epochs = arguments.num_train_epochs
        if arguments.max_steps > 0:
            epochs = (arguments.max_steps - 0.5) * expected / max(self._privacy["public_size"], expected)
        self.create_optimizer()
        workers = {"num_workers": arguments.dataloader_num_workers}
        batches = Batches(physical_size=size, collate_fn=loader.collate_fn, options=workers)
        return make_private(
            self.model, self.optimizer, loader.dataset, batch_size=expected, epochs=epochs, batches=batches,
            **self._privacy,
        )  # fmt: skip

    def _begin_transformers_training(self, run: PrivateRun) -> None:
        """Sets the state and the handlers that callbacks read, as the inherited ``train`` would."""
        self.is_in_train = True
        stateful = [
            each for each in (*self.callback_handler.callbacks, self.control) if isinstance(each, ExportableState)
        ]
        self.state = TrainerState(
            global_step=run.steps_, train_batch_size=self.args.per_device_train_batch_size, stateful_callbacks=stateful
        )
        self.state.compute_steps(self.args, run.plan.steps)
        self.state.init_training_references(self, run.plan.steps, math.ceil(self.args.num_train_epochs), None)
        self.callback_handler.optimizer, self.callback_handler.lr_scheduler = self.optimizer, self.lr_scheduler
        self.callback_handler.train_dataloader = run.loader
        self.control = self.callback_handler.on_train_begin(self.args, self.state, self.control)

    def _take_transformers_epoch(self, run: PrivateRun, ignored: list[str] | None) -> None:
        """Takes the steps of one epoch, and calls the callbacks around the epoch and around each step."""
        self.control = self.callback_handler.on_epoch_begin(self.args, self.state, self.control)
        for batch in run.loader:
            self.control = self.callback_handler.on_step_begin(self.args, self.state, self.control)
            self.model.train()
            run.step(self._compute_record_loss, batch)
            self.lr_scheduler.step()
            self.state.global_step, self.state.epoch = run.steps_, run.steps_ / run.plan.steps_per_epoch
            self.control = self.callback_handler.on_step_end(self.args, self.state, self.control)
            self._log_evaluate_save(run, ignored)
            if self.control.should_training_stop:
                break
        self.control = self.callback_handler.on_epoch_end(self.args, self.state, self.control)
        self._log_evaluate_save(run, ignored)

    def _compute_record_loss(self, model: Any, inputs: Any) -> Any:
        """Returns the loss that ``compute_loss`` computes for a batch of one record, in shape (1,)."""
        with self.compute_loss_context_manager():
            return self.compute_loss(model, dict(inputs)).reshape(1).float()

    def _log_evaluate_save(self, run: PrivateRun, ignored: list[str] | None) -> None:
        """Logs, evaluates and saves as the callbacks requested. Logs contain only released numbers."""
        if self.control.should_log:
            released = {"loss": run.losses_[-1].mean} if run.losses_ else {}
            rate = float(self.lr_scheduler.get_last_lr()[0])
            self.log({**released, "epsilon": run.epsilon().upper, "learning_rate": rate})
        if self.control.should_evaluate:
            self.evaluate(ignore_keys=ignored)
        if self.control.should_save:
            self._save_checkpoint(self.model, None)
            self.control = self.callback_handler.on_save(self.args, self.state, self.control)
