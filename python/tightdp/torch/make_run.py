"""``make_private``: checks a model, an optimizer and a data set, and makes a private run of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
import torch

from ..algorithms.adaclip import AdaCliP
from ..algorithms.dpis import DPIS
from ..algorithms.driver import make_algorithm_source
from ..composition import Composition
from ..ledger import Ledger
from ..ledger.ledger import name_ledger
from ..ledger.payment import open_ledger
from .adam import set_adam_noise_variance
from .algorithm_sums.auto_sums import choose_algorithm_sum_arithmetic
from .batches import poisson_loader
from .batches.importance_loader import ImportanceLoader
from .batches.poisson_loader import RunLoader
from .distributed.agreement import list_facts_of_ranks
from .distributed.ranks import Ranks, join_distributed_ranks
from .distributed.sharded_run import ShardedRun, check_model_sharding
from .distributed.shared_run import SharedRun
from .ghost_clipping.layers import check_ghost_clipping_layers
from .model_checks import model_checks
from .plan.algorithm_settings import check_torch_algorithm, choose_algorithm_settings
from .plan.loss_release import LossRelease
from .plan.norm_sum_account import make_run_account
from .plan.plan import SumArithmetic, check_norm_bounds_of_plan, plan_run
from .randomness.process_group import World
from .randomness.run_key import NOISE, RunKey
from .run.checkpoint import Checkpoint
from .run.private_run import PrivateRun
from .run.run_options import (
    AfterFailure,
    Batches,
    check_run_options_for_batches,
    check_run_options_for_loss,
    split_run_option_of_checkpoint,
)
from .run.saved_run import SavedRun


def make_private(
    model: Any,
    optimizer: Any,
    dataset: Any,
    *,
    algorithm: str | AdaCliP | DPIS = "dp-sgd",
    epsilon: float | None = None,
    delta: float | None = None,
    batch_size: float,
    epochs: float,
    max_norm: float | Sequence[float],
    noise_multiplier: float | None = None,
    public_size: int | None = None,
    arithmetic: SumArithmetic = "auto",
    batches: Batches | None = None,
    release_loss: LossRelease | None = None,
    random_state: int | None = None,
    ledger: Ledger | str | PathLike[str] | None = None,
    checkpoint: str | PathLike[str] | AfterFailure | None = None,
    distributed: Any = None,
) -> PrivateRun:
    """Returns a run that trains ``model`` with differential privacy. Neither model nor optimizer is wrapped.

    Parameters
    ----------
    model : torch.nn.Module
        The model to train. Every parameter that requires a gradient is trained. No module of the model may mix the
        records of a batch.
    optimizer : an optimizer of ``torch.optim`` over the trained parameters. A step of the optimizer may use only one
        gradient. Learning rate schedulers work as usual.
    dataset : a data set that has a length and gives records by index.
    algorithm : the name of an algorithm, or its settings, an ``AdaCliP(...)`` or ``DPIS(...)`` of ``tightdp.train``.
        "dp-sgd" gives clipped gradients of Poisson batches with Gaussian noise to any optimizer (Abadi et al. 2016).
        "dp-adam" gives the same gradients to ``DPAdam``, which uses the variance of their noise. "adaclip" centres and
        scales gradients coordinate by coordinate before it clips them (Pichapati et al. 2019). "dpis" draws records in
        proportion to the norms of their gradients (Wei et al. 2022).
    epsilon, delta : the guarantee to meet for adding or removing one record, with epsilon at most 1e6. This guarantee
        determines the noise.
    batch_size : the expected size of a batch, at most ``public_size``. The sum over a batch is divided by
        ``batch_size``. If ``public_size`` is None and the noisy count of records is smaller than ``batch_size``, a
        batch has all records.
    epochs : the number of steps in which a record takes part on average. There are ceil(epochs / q) steps, where q is
        ``batch_size`` divided by the number of records.
    max_norm : bound on the L2 norm of one record's gradient, in [1e-30, 1e30]. A sequence has a bound for each trained
        parameter, in the order of ``model.parameters()``. With ``DPIS(adapt=...)``, it is the bound of the first epoch.
    noise_multiplier : the standard deviation of the noise divided by the norm bound, given in place of ``epsilon``.
    public_size : a public number of records, from which q follows. None keeps the number private. Then a noisy count is
        released first, for a fiftieth of epsilon and delta, and the run uses the noisy count.
    arithmetic : the way in which gradients are computed and added up. "auto" takes "products" for records of a form
        that "products" supports, and "exact" for other records. For AdaCliP, for DPIS and with a bound for each
        parameter, "auto" always takes "exact". ``ways_`` of the run shows what was used.
        "products" computes exact sums from one backward pass. If each record passes a linear layer once, the gradients
        of this layer are added as products of integers. All other gradients are formed, which means that they are
        computed entry by entry. "products" supports linear layers, convolutions, embeddings, norm layers and modules
        that are made of these.
        "exact" forms the gradient of each record by ``torch.func`` and adds integers. The model's Python code runs once
        for all records, and cannot branch on the values of tensors.
        "one-by-one" forms the gradient of one record after the other and adds integers. It supports any module, and
        assumes that the model keeps nothing between records.
        "float" computes norms from one backward pass without forming gradients, and adds floats. The account leaves the
        roundings of floats out (idealised arithmetic).
    batches : a ``Batches``, or None for its defaults. It says how many records go through the model at once, whether
        each record gets a random row among these records, and how records are collated.
    release_loss : None, or a ``LossRelease`` to release the noisy mean training loss of every epoch or every few steps.
        ``losses_`` of the run then has these losses. The charge stays the same. The loss takes a share of the charge,
        which makes the noise on the gradients a little larger. ``noise_multiplier`` then holds for loss and gradients
        together. ``release_loss`` must be None for "dpis", whose batches are not uniform samples.
    random_state : None draws from the operating system's secure generator. An int makes batches and noise repeatable,
        which is for experiments and never for a release.
    ledger : a ``Ledger`` of the data set, or its path or URL. It is charged for the whole plan here, before any
        release. Leave it out if you continue a run by ``load_state_dict``, because the ledger was charged already.
    checkpoint : a folder, which is made if it does not exist. Only the first process uses it. Every step is recorded in
        the folder before it releases anything, and ``fit`` and ``save`` save the model and the optimizer in it. If the
        folder holds a run, this run is continued, on any number of processes. The ledger is not charged again, and the
        keys of random numbers are new. With a ledger, a copy of the folder is refused if another copy has recorded more
        steps. If an error ended the run, the run goes on only with ``AfterFailure(folder)``.
    distributed : None trains on all processes of ``torch.distributed`` if it is initialised. Then every process calls
        ``make_private``, ``step`` and ``fit`` in the same order. Parameters and buffers start as those of rank 0, and
        ``batch_size`` is the size of a batch of all processes together. If ``batches`` has a ``physical_size``, the
        processes take physical batches in turn. False trains on this process alone, and a ``ProcessGroup`` trains on
        the processes of this group.

    Returns
    -------
    PrivateRun

    Guarantee: the parameters after all steps together, and everything that is computed from them, are
    (epsilon, delta)-DP, up to what ``statement_`` says is idealised.

    Raises ValueError or TypeError for an argument that is not accepted, ``BudgetExceeded`` if the ledger does not cover
    the plan, and ``LedgerError``. All of these are raised before any record is read. Warns if ``delta`` is at least
    1 / (number of records), because a release of whole records can meet such a guarantee.

    >>> import torch
    >>> from torch.utils.data import TensorDataset
    >>> records = TensorDataset(torch.randn(400, 5), torch.randint(0, 2, (400,)))
    >>> model = torch.nn.Linear(5, 2)
    >>> run = make_private(model, torch.optim.SGD(model.parameters(), lr=0.1), records, epsilon=3.0, delta=1e-5,
    ...                    batch_size=40, epochs=2, max_norm=1.0, public_size=400)
    >>> def loss(model, batch):
    ...     x, y = batch
    ...     return torch.nn.functional.cross_entropy(model(x), y, reduction="none")
    >>> for batch in run.loader:
    ...     run.step(loss, batch)
    >>> run.steps_, run.epsilon() <= 3.0, run.fit(loss).privacy_ <= 3.0
    (10, True, True)
    """
    world = join_distributed_ranks(distributed)
    seed = int(random_state) if isinstance(random_state, np.integer) else random_state
    budget: dict[str, Any] = {
        "epsilon": epsilon, "delta": delta, "batch_size": batch_size, "epochs": epochs,
        "noise_multiplier": noise_multiplier, "public_size": public_size,
    }  # fmt: skip
    said = {"algorithm": algorithm, "max_norm": max_norm, "arithmetic": arithmetic, **budget}
    with world.run_ranks_together("make_private", **list_facts_of_ranks(model, optimizer, dataset, seed, said)):
        batches, (folder, after_failure) = (
            check_run_options_for_batches(batches),
            split_run_option_of_checkpoint(checkpoint),
        )
        said["release_loss"] = check_run_options_for_loss(release_loss, algorithm)
        said["batches"] = batches.physical_size, batches.padded, folder is None
        name, own = choose_algorithm_settings(algorithm)
        model_checks.check_types_of_torch_model(model, optimizer)
        how = choose_algorithm_sum_arithmetic(arithmetic, name, max_norm, model)
        check_torch_algorithm(name, own, optimizer, how, batches.padded, batches.options.get("num_workers"))
        sharded = check_model_sharding(model, world)
        parameters = _check_model_in_make_run(model, optimizer, arithmetic, world)
        make_algorithm_source(seed)
        poisson_loader.check_torch_dataset(dataset)
        book = open_ledger(ledger) if world.is_first else None
        files = Checkpoint(folder, book) if world.is_first and folder is not None else None
        # This loader is made only to check the options before the number of records is released.
        poisson_loader.PoissonLoader(dataset, 1.0, **_list_loader_options_in_make_run(batches))
    about = {
        "algorithm": name, "optimizer": type(optimizer).__name__, "random_state": seed, "ledger": name_ledger(book)
    }  # fmt: skip
    size = sum(p.numel() for p in parameters.values())

    # Making these parts reads the checkpoint, charges the ledger and releases the noisy count, so their order matters.
    saved = SavedRun(world, folder, files, about)
    key = RunKey(world, seed)
    made = plan_run(
        len(dataset),
        key.make_run_key_source(NOISE),
        max_norm=check_norm_bounds_of_plan(max_norm, len(parameters)),
        own=own,
        size=size,
        largest=min(torch.finfo(p.dtype).max for p in parameters.values()),
        arithmetic=how,
        pay=_make_payment_in_make_run(world, book, f"{type(model).__name__}, {name}", saved.saved_run_name),
        released=saved.record_count,
        loss=release_loss,
        **budget,
    )
    account = make_run_account(made, size)
    identity = saved.take_up_run(account, parameters, after_failure=after_failure)
    batch_kind = ImportanceLoader if isinstance(own, DPIS) else RunLoader
    drawn = batch_kind(account, dataset, key, world, padded=batches.padded, **_list_loader_options_in_make_run(batches))
    set_adam_noise_variance(optimizer, (made.noise_deviation / made.divisor) ** 2)
    run_kind: Any = PrivateRun if not isinstance(world, Ranks) else ShardedRun if sharded else SharedRun
    run: PrivateRun = run_kind(model, optimizer, account, drawn, key, identity, world=world, ledger=book, saved=saved)
    run._restore_run_tensors()
    return run


def _check_model_in_make_run(model: Any, optimizer: Any, arithmetic: SumArithmetic, world: World) -> dict[str, Any]:
    """Returns the trained parameters. Raises an error if the model or the optimizer forbids private training."""
    model_checks.check_model_modules(model)
    if arithmetic in ("float", "products"):
        check_ghost_clipping_layers(model)
    parameters = model_checks.find_trained_parameters(model, optimizer)
    model_checks.check_optimizer_of_torch_model(optimizer)
    model_checks.check_model_parameters_finite(
        p for p in model.named_parameters() if world.is_first or model_checks.is_sharded_model_parameter(p[1])
    )
    return parameters


def _list_loader_options_in_make_run(batches: Batches) -> dict[str, Any]:
    """Returns the arguments that tell a loader how to read records."""
    return {"physical_batch_size": batches.physical_size, "collate_fn": batches.collate_fn, **batches.options}


def _make_payment_in_make_run(world: World, book: Ledger | None, note: str, run: str) -> Callable[[Composition], None]:
    """Returns a function that charges the ledger for the run named ``run``. Only the first process has the ledger."""

    def charge_ledger_of_run(charge: Composition) -> None:
        if book is not None:
            book.spend(charge, note=note, release=run)

    return lambda charge: world.run_on_first_rank("the ledger", partial(charge_ledger_of_run, charge))
