"""A run that is killed at a chosen point, and goes on: what the tests of checkpoints look at.

Every case is two lives of one run. In the first, one rank of two is killed at a
point of the protocol. The second, on another number of ranks, goes on from the checkpoint and ends. Each rank writes
down every release in a file of its own.
"""

import datetime
import itertools
import json
import os

import torch
import torch.distributed as dist
from forked import RECORDS, fork
from small import cross_entropy, mlp, private, still, table

import tightdp as dp
from tightdp.torch import make_run
from tightdp.torch.batches.importance_loader import ImportanceCandidates
from tightdp.torch.distributed.ranks import Ranks
from tightdp.torch.distributed.shared_run import SharedRun
from tightdp.torch.plan.norm_share_account import NormShareAccount
from tightdp.torch.plan.run_account import RunAccount
from tightdp.torch.run import checkpoint
from tightdp.torch.run.private_run import PrivateRun

STEPS = 6
SETTINGS = {"batch_size": 20, "epochs": 2, "noise_multiplier": None, "epsilon": 1.0}
NORMS = dp.Gaussian(40.0)
ALGORITHMS = {
    "dp-sgd": "dp-sgd", "dpis": "dpis",
    "share": dp.train.DPIS(norm_share=None, norm_noise=NORMS.noise_multiplier, reach=1.5),
}  # fmt: skip
POINTS = (
    "before the key", "after the ledger", "before run.json", "after run.json", "before the first exchange",
    "before the charge", "before the record", "after the record", "after the charge", "in the loss",
    "before the sum", "after the sum", "after the optimizer",
    "before saving", "after saving",
)  # fmt: skip
DPIS = "after the norms"  # of all records, or of candidates
SHARE = ("after the charge of the norms", "before the share", "after the share")
FEW = (
    ("dp-sgd", "after the ledger", 0, 1), ("dp-sgd", "after the charge", 0, 2), ("dp-sgd", "before the record", 0, 1),
    ("dp-sgd", "after the sum", 1, 4),
    ("dp-sgd", "before saving", 0, 1), ("dpis", DPIS, 1, 2),
    ("share", SHARE[1], 0, 1),
)  # fmt: skip


def kill():
    os.kill(os.getpid(), 9)


def at(point, when):
    """Puts a kill in the way of the ``when``-th passage."""
    passed = itertools.count(1)

    def now(*arguments):
        if next(passed) == when:
            kill()

    def around(owner, name, before=False, only=None):
        inner = getattr(owner, name)

        def outer(*arguments, **options):
            chosen = only is None or only in arguments
            if before and chosen:
                now()
            result = inner(*arguments, **options)
            if not before and chosen:
                now()
            return result

        setattr(owner, name, outer)

    {
        "before the key": lambda: around(make_run, "RunKey", before=True),
        "after the ledger": lambda: around(dp.Ledger, "spend"),
        "before run.json": lambda: around(checkpoint.Checkpoint, "begin_checkpoint", before=True),
        "after run.json": lambda: around(checkpoint.Checkpoint, "begin_checkpoint"),
        "before the first exchange": lambda: around(PrivateRun, "_move_parts_of_private_run"),
        "before the charge": lambda: (
            around(RunAccount, "spend", before=True),
            around(NormShareAccount, "spend", before=True),
        ),
        "after the charge": lambda: (around(RunAccount, "spend"), around(NormShareAccount, "spend")),
        "before the record": lambda: around(dp.Ledger, "record_progress", before=True),
        "after the record": lambda: around(dp.Ledger, "record_progress"),
        SHARE[0]: lambda: around(NormShareAccount, "spend_norm_sums_of_plan"),
        SHARE[1]: lambda: around(checkpoint.Checkpoint, "record_run_shares", before=True),
        SHARE[2]: lambda: around(checkpoint.Checkpoint, "record_run_shares"),
        "in the loss": lambda: around(torch.nn.functional, "cross_entropy", before=True),
        "before the sum": lambda: around(Ranks, "add_over_ranks", before=True),
        "after the sum": lambda: around(Ranks, "add_over_ranks"),
        "after the optimizer": lambda: around(torch.optim.SGD, "step"),
        "before saving": lambda: around(os, "replace", before=True, only=None),
        "after saving": lambda: around(checkpoint.Checkpoint, "save"),
        DPIS: lambda: around(ImportanceCandidates, "renew_importance_bounds"),
    }[point]()


def life(rank, size, case, number, algorithm, point, victim):
    torch.set_num_threads(1)
    if rank == victim:
        # Four files are put in their places before the first step.
        late = {"before saving": 5, "in the loss": 4, **dict.fromkeys(SHARE, 2)}
        at(point, late.get(point, 1 if point in POINTS[:4] + POINTS[-1:] else 3))
    log = (case / f"releases-{number}-{rank}").open("a", buffering=1)
    released = SharedRun._release_run_sums

    def seen(run, sums):
        found = list(released(run, sums))
        log.write(json.dumps([run.steps_, found[0].flatten()[:3].tolist()]) + "\n")
        return found

    SharedRun._release_run_sums = seen
    sums, choose = (case / f"sums-{number}-{rank}").open("a", buffering=1), NormShareAccount.choose_norm_share_of_plan
    NormShareAccount.choose_norm_share_of_plan = lambda account, released: (
        sums.write(f"{released!r}\n"),
        choose(account, released),
    )
    dist.init_process_group(
        "gloo", init_method=f"file://{case}/group-{number}", rank=rank, world_size=size,
        timeout=datetime.timedelta(hours=1),
    )  # fmt: skip
    torch.manual_seed(3)
    settings = {"ledger": case / "ledger", "checkpoint": case / "run"} if rank == 0 else {"checkpoint": "elsewhere"}
    try:
        run = private(
            mlp(), table(RECORDS), algorithm=ALGORITHMS[algorithm], after_failure=True, **SETTINGS, **settings
        )
        began = run.steps_
        run.fit(still if point != "in the loss" else cross_entropy)
    except RuntimeError as error:
        (case / f"stopped-{number}-{rank}").write_text(str(error))
        os._exit(0)
    parameters = [p.detach() for p in run.model.parameters()]
    torch.save({"began": began, "steps": run.steps_, "history": run.history_, "privacy": run.privacy_,
                "parameters": parameters}, case / f"ended-{number}-{rank}.pt")  # fmt: skip
    os._exit(0)


def both(folder, algorithm, point, victim, size):
    case = folder / f"{point}, {algorithm}, rank {victim}, then {size}"
    case.mkdir()
    dp.Ledger.create(case / "ledger", epsilon=9.0, delta=1e-3, dataset="records", failure=1e-4)
    for number, ranks in ((1, 2), (2, size)):
        chosen = victim if number == 1 else None
        for child in [fork(life, rank, ranks, case, number, algorithm, point, chosen) for rank in range(ranks)]:
            os.waitpid(child, 0)


def run_cases(folder, everything):
    folder.mkdir()
    for algorithm in ALGORITHMS.values():
        private(mlp(), table(RECORDS), algorithm=algorithm, **SETTINGS)  # its noise is remembered by the children
    cases = FEW
    if everything:
        alone = {*POINTS[1:4], *POINTS[-2:], "before the record", "after the record"}  # what rank 0 does by itself
        victims = [(point, rank) for point in POINTS for rank in (0, 1) if rank == 0 or point not in alone]
        of_dpis = [*victims, (DPIS, 0), (DPIS, 1)]
        of_share = [*of_dpis, *((point, 0) for point in SHARE), (SHARE[0], 1)]
        named = {"dp-sgd": victims, "dpis": of_dpis, "share": of_share}
        victims = [(algorithm, *each) for algorithm, found in named.items() for each in found]
        cases = [(*each, (1, 2, 4)[i % 3]) for i, each in enumerate(victims)]
    for case in cases:
        both(folder, *case)
