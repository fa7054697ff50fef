"""From a model, an optimizer and a data set to a private run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from typing import Any

import numpy as np

from ..ledger import Ledger
from ..release.noise import Philox, RandomSource
from ..train.algorithms.adaclip import AdaCliP
from ..train.algorithms.dpis import DPIS
from ..train.driver import opened, paid, seeded
from ..train.stated import name_of
from . import checks, loader, saved
from .adam import DPAdam
from .checkpoint import Checkpoint
from .distributed.agreed import agreed
from .distributed.key import NOISE, Key
from .distributed.loader import SharedImportanceLoader, SharedLoader
from .distributed.ranks import Ranks, world_of
from .distributed.run import SharedRun
from .distributed.sharded import ShardedRun, check_sharding
from .draws import Coins
from .either import resolved
from .importance import ImportanceLoader
from .loader import RunLoader
from .onepass.layers import check_layers
from .plan import SumArithmetic, bounds, plan
from .released_share import ShareAccount, account_of
from .run import PrivateRun
from .settings import check_algorithm, chosen


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
    physical_batch_size: int | None = None,
    padded: bool = False,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    random_state: int | None = None,
    ledger: Ledger | str | PathLike[str] | None = None,
    checkpoint: str | PathLike[str] | None = None,
    after_failure: bool = False,
    distributed: Any = None,
    **options: Any,
) -> PrivateRun:
    """A run that trains ``model`` with differential privacy. It does not wrap the model or the optimizer.

    Parameters
    ----------
    model : torch.nn.Module
        Every parameter that requires a gradient is trained. Nothing in it may mix the records of a batch.
    optimizer : any of ``torch.optim`` that takes one gradient a step, over those parameters; learning rate schedulers
        work as before
    dataset : with a length and records by index
    algorithm : "dp-sgd": clipped gradients of Poisson batches with Gaussian noise (Abadi et al. 2016), for any
        optimizer. "dp-adam": the same gradients for ``DPAdam``, which knows the variance of their noise. "adaclip":
        gradients are centred and scaled coordinate by coordinate before they are clipped (Pichapati et al. 2019).
        "dpis": records are drawn in proportion to the norms of their gradients (Wei et al. 2022). Or an
        ``AdaCliP(...)`` or ``DPIS(...)`` of ``tightdp.train``, with its own settings
    epsilon, delta : the guarantee to meet under add or remove of one record, epsilon at most 1e6; the noise follows
    batch_size : the expected size of a batch, and the divisor of its sum; more than there are records means all of them
    epochs : the number of steps in which a record takes part on average. There are ceil(epochs / q) steps, where q is
        batch_size divided by the number of records
    max_norm : bound on the L2 norm of one record's gradient, in [1e-30, 1e30]; or one for each parameter that is
        trained, in the order of ``model.parameters()``
    noise_multiplier : in place of ``epsilon``: standard deviation of the noise divided by the norm bound
    public_size : a public number of records, from which q follows. None keeps it private: a noisy count is released
        first, for a fiftieth of epsilon and delta, and the run uses that
    arithmetic : "auto" adds integers, by "products" for records of a form that it serves and else by "exact"; with a
        bound for each parameter, for AdaCliP and DPIS by "exact" alone. ``ways_`` shows what it chose. "products" gets
        exact sums from one backward pass: where each record passes a linear layer once, gradients are added as products
        of integers, and all others are formed. It serves linear layers, convolutions, embeddings, norm layers and what
        is made of them. "exact" forms every record's gradient by ``torch.func``, where the model's code runs once for
        all records and sees no values, and adds integers. "one-by-one" does for any module, one record after the other,
        and assumes that the model keeps nothing between them. "float" gets norms from one backward pass without
        forming gradients, and adds floats, which the account idealises
    physical_batch_size : the most records that go through the model at once; a step adds up as many as it takes
    padded : whether every physical batch has the same shape and each record draws its own place in one, for the exact
        arithmetic and for products: then no bit of a record's gradient depends on the others, as far as PyTorch's
        kernels compute a row from what it holds and where it stands. It costs the empty places: twice the rows for
        batches of 8 times ``physical_batch_size``, 1.4 times for 32 (docs/theory/training.md, section 8). Without that
        size there are from 8 to 64 places
    collate_fn : as for ``torch.utils.data.DataLoader``, of a list of one record: it makes dense tensors with one row,
        and nothing else. So nothing of a record can enter another. Records of equal shape go through the model
        together: to have all of them go together, pad to a fixed length
    random_state : None draws from the operating system's secure generator. An int makes batches and noise repeatable:
        for experiments, never for a release
    ledger : a ``Ledger`` of the data set, or its path or URL. It is charged for the whole plan here, before any
        release. Leave it out if you continue a run by ``load_state_dict``, because it was charged already
    checkpoint : a folder, which is made if it does not exist; only the first process uses it. Every step is recorded
        there before it releases anything, and ``fit`` and ``save`` put the model and the optimizer there. If it holds a
        run, that run is continued, on any number of processes: what it was charged stays charged, the ledger is not
        charged again, and keys are new
    after_failure : whether the run may go on from a checkpoint or a state of one that an error ended. That the error
        came may tell of a record; the statement says that the run went on
    distributed : None trains on all processes of ``torch.distributed`` where it is initialised. Every process then
        calls this, ``step`` and ``fit`` in the same order: parameters and buffers start as those of rank 0,
        ``batch_size`` is that of all processes together, and with ``physical_batch_size`` the ranks take physical
        batches in turn. False trains on this process alone, and a ``ProcessGroup`` on its processes
    options : of ``torch.utils.data.DataLoader``, such as ``num_workers``

    Returns
    -------
    PrivateRun

    Guarantee: the parameters after every step, and all else that is computed from them, are (epsilon, delta)-DP
    together, up to what ``statement_`` says is idealised.

    Raises ValueError or TypeError naming the argument and what is accepted, ``BudgetExceeded`` where the ledger does
    not cover the plan, and ``LedgerError``, before any record is looked at. Warns of a ``delta`` of at least one over
    the number of records, which a release of whole records would meet.

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
    world = world_of(distributed)
    seed = int(random_state) if isinstance(random_state, np.integer) else random_state
    settings: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "batch_size": batch_size,
        "epochs": epochs,
        "noise_multiplier": noise_multiplier,
        "public_size": public_size,
        "arithmetic": arithmetic,
    }
    reading = {"physical_batch_size": physical_batch_size, "collate_fn": collate_fn, **options}
    said = (algorithm, max_norm, physical_batch_size, padded, checkpoint is None, *settings.items())
    with world.together("make_private", **agreed(model, optimizer, dataset, seed, said)):
        name, own = chosen(algorithm)
        checks.check_types(model, optimizer)
        settings["arithmetic"] = resolved(arithmetic, name, max_norm, model)
        check_algorithm(name, own, optimizer, settings["arithmetic"], padded, options.get("num_workers"))
        checks.check_modules(model)
        if arithmetic in ("float", "products"):
            check_layers(model)
        sharded = check_sharding(model, world)
        parameters = checks.trainable(model, optimizer)
        checks.check_settings(optimizer)
        checks.check_finite(p for p in model.named_parameters() if world.first or checks.is_sharded(p[1]))
        draws = seeded(seed)
        loader.checked(dataset)
        book = opened(ledger) if world.first else None
        folder: Any = Checkpoint(checkpoint) if world.first and checkpoint is not None else None
        loader.PoissonLoader(dataset, 1.0, **reading)  # refuses options before the number of records is released
    about = {
        "algorithm": name,
        "optimizer": type(optimizer).__name__,
        "random_state": seed,
        "ledger": name_of(book),
    }
    before = None if checkpoint is None else world.on_first("the checkpoint", lambda: folder.read(about))
    # Batches are drawn ahead, so noise has streams of its own.
    key = Key(world, seed) if isinstance(world, Ranks) else None
    source = key.at(NOISE) if key else draws if seed is None else Philox(seed, NOISE)
    note = f"{type(model).__name__}, {name}"
    made = plan(
        len(dataset),
        source,
        max_norm=bounds(max_norm, len(parameters)),
        own=own,
        size=sum(p.numel() for p in parameters.values()),
        pay=lambda charge: world.on_first("the ledger", partial(paid, book, charge, note)),
        released=None if before is None else saved.records(before),
        **settings,
    )
    if isinstance(optimizer, DPAdam):
        for group in optimizer.param_groups:
            group["noise_variance"] = (made.deviation / made.divisor) ** 2
    account = account_of(made, sum(p.numel() for p in parameters.values()))
    if before is None:
        identity = world.on_first("the name of the run", saved.identity)
        if checkpoint is not None:
            state = saved.state(identity, account, parameters)
            world.on_first("the checkpoint", lambda: folder.begin(state, about))
    else:
        with world.together("the checkpoint"):
            identity = saved.restore(
                before, saved.identity(), account, parameters, "checkpoint", after_failure=after_failure
            )
        if seed is not None:
            draws, source = Philox(seed, account.steps), Philox(seed, NOISE + (made.count is not None) + account.steps)

    def streams(number: int) -> RandomSource:
        return key.at(number) if key else draws if seed is None else Philox(seed, number)

    if folder is not None:
        folder.hold()
        account.keep = folder.charge
        if isinstance(account, ShareAccount):
            account.note = folder.note
    going_on: dict[str, Any] = {"checkpoint": folder, "identity": identity, "after_failure": after_failure}
    run: PrivateRun
    important: dict[str, Any] = {"streams": streams} if isinstance(own, DPIS) else {}
    reading["coins"] = key.coins() if key else Coins(seed)
    if padded:
        reading["padded"] = streams
    if key and isinstance(world, Ranks):
        of_ranks = SharedImportanceLoader if important else SharedLoader
        shared = of_ranks(account, dataset, world, key, **important, **reading)
        shared_run = ShardedRun if sharded else SharedRun
        run = shared_run(model, optimizer, account, shared, key, world, book, saves=checkpoint is not None, **going_on)
    else:
        kind = ImportanceLoader if important else RunLoader
        batches = kind(account, dataset, rng=draws, **important, **reading)
        run = PrivateRun(model, optimizer, account, batches, source, book, **going_on)
    run._start()
    return run
