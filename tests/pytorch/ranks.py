"""What the tests of several ranks look at: a script that trains on 1, 2 and 4 processes and saves what they found.

``python ranks.py FOLDER [killed]``. One process imports PyTorch, and the ranks are forked from it. With "killed" it
runs all the cases of killed.py and nothing else.
"""

import datetime
import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

sys.path.insert(0, str(Path(__file__).parent))
from forked import RECORDS, fork
from killed import run_cases
from small import cross_entropy, mlp, private, still, table

import tightdp as dp
from tightdp.clipping_and_noise.noise import Philox
from tightdp.torch import DPAdam, LossRelease
from tightdp.torch.distributed.ranks import Ranks

warnings.filterwarnings("ignore", "the gradients of all records")  # of ``still``, where noise is all there is
SEED = 7
FIXED = {"physical_size": 2}
LOSSES = {"physical_size": 2, "release_loss": LossRelease(2.0, every=3)}
PADDED = {"physical_size": 4, "padded": True}
COUNTED = {"public_size": None, "noise_multiplier": None, "epsilon": 3.0, "epochs": 0.5, "physical_size": 3}
ADACLIP = {"algorithm": "adaclip", "physical_size": 2}
BY_NORMS = dp.train.DPIS(reach=1.5)
RELEASED = dp.train.DPIS(norm_share=None, norm_noise=10.0, reach=1.5)
SHARE = {"algorithm": RELEASED, "noise_multiplier": None, "epsilon": 3.0, "physical_size": 2}
DPIS = {"algorithm": BY_NORMS, "physical_size": 2}
WIDE = {"dataset": table(RECORDS), "noise_multiplier": 0.5, "batch_size": 5.0, "random_state": SEED, "epochs": 1 / 4}


def trained(**settings):
    """The parameters after two epochs, and the gradients of the last step."""
    torch.manual_seed(1)
    run = private(mlp(), table(RECORDS), **{"noise_multiplier": 1.0, "epochs": 2, "random_state": SEED, **settings})
    run.fit(settings.pop("loss_fn", cross_entropy))
    return {
        "parameters": [p.detach().clone() for p in run.model.parameters()],
        "released": [p.grad.clone() for p in run.model.parameters()],
        "history": run.history_,
        "epsilon": float(run.privacy_),
        "losses": run.losses_,
        "outside": run.statement_.outside,
    }


def halting(folder, until):
    """The parameters of a run that goes on from a folder, on whatever ranks there are, and is saved at that step."""
    torch.manual_seed(1)
    run = private(mlp(), table(RECORDS), noise_multiplier=1.0, epochs=2, random_state=SEED, **FIXED,
                  checkpoint=folder / "halting" if dist.get_rank() == 0 else "nowhere")  # fmt: skip
    began = run.steps_
    while run.steps_ < until:
        for batch in run.loader:
            run.step(cross_entropy, batch)
            if run.steps_ == until:
                break
    run.save()
    return {"began": began, "parameters": [p.detach().clone() for p in run.model.parameters()]}


def sharded(size, folder=None, **settings):
    """``trained`` with the model under FSDP2, and again from a checkpoint that was saved on the way."""
    torch.manual_seed(1)
    model = mlp()
    mesh = init_device_mesh("cpu", (size,))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    data, optimizer = table(RECORDS), settings.pop("optimizer", torch.optim.SGD)(model.parameters(), lr=0.5)
    if folder is not None:
        settings["checkpoint"] = folder / f"sharded-{size}" if dist.get_rank() == 0 else "nowhere"
    run = private(model, data, optimizer, **{"noise_multiplier": 1.0, "epochs": 2, "random_state": SEED, **settings})
    began = run.steps_
    for batch in run.loader:
        run.step(cross_entropy, batch)
    model(torch.ones(2, 5))  # leaves whole parameters in their places
    if folder is not None:
        run.save()
        if not began:
            return sharded(size, folder, **settings)
    local = sum(p.to_local().numel() for p in run._check_run_parameters().values())
    run.fit(cross_entropy)
    return {"began": began, "parameters": [p.full_tensor().detach() for p in run._check_run_parameters().values()],
            "local": local, "same": raised(lambda: private(model, data, optimizer, distributed=False))}  # fmt: skip


def noise(**settings):
    """What three steps of a wide model release where no gradient moves anything."""
    torch.manual_seed(2)
    run = private(torch.nn.Linear(5, 3_000), **{**WIDE, **settings})
    found = []
    for batch in run.loader:
        run.step(still, batch)
        found.append(torch.cat([p.grad.reshape(-1) for p in run.model.parameters()]))
    return torch.stack(found) * run.plan.batch_size / run.plan.noise_deviation


def one_number():
    """What ranks release that have no coordinate of their own, but one of them."""
    torch.manual_seed(4)
    model = torch.nn.Linear(5, 1, bias=False)
    model.weight = torch.nn.Parameter(torch.zeros(1, 5)[:, :1])
    run = private(model, table(RECORDS), noise_multiplier=1.0, random_state=SEED, **FIXED)
    run.fit(lambda model, batch: (model(batch[0][:, :1]).squeeze(1) - 1) ** 2)
    return model.weight.item()


def shares(physical_size):
    """Each rank's records of each batch, and the batches."""
    run = private(mlp(), table(RECORDS), noise_multiplier=1.0, random_state=SEED, batch_size=3,
                  physical_size=physical_size)  # fmt: skip
    return [
        ([piece.tolist() for piece in run.loader._cut_poisson_loader_batches(batch.rows)], batch.rows.tolist())
        for batch in run.loader
    ]


def candidates(**settings):
    """The records that each step of DPIS looks at, and this rank's number of them."""
    torch.manual_seed(6)
    run = private(mlp(), table(RECORDS), noise_multiplier=1.0, random_state=SEED, algorithm=BY_NORMS, **settings)
    found = []
    for batch in run.loader:
        run.step(cross_entropy, batch)
        found.append((batch.rows.tolist(), run.loader.candidates._seen))
    return found


def raised(function):
    """The type and the text of what a function raises."""
    try:
        function()
    except Exception as error:
        return type(error).__name__, str(error)
    return None


def wrong(rank, folder):
    """What ranks that differ are told."""
    half = torch.optim.SGD
    model = mlp()
    found = {
        "settings": raised(lambda: private(mlp(), table(RECORDS), noise_multiplier=1.0 + rank)),
        "seed": raised(lambda: private(mlp(), table(RECORDS), noise_multiplier=1.0, random_state=rank)),
        "records": raised(lambda: private(mlp(), table(RECORDS + rank), noise_multiplier=1.0, public_size=RECORDS)),
        "model": raised(lambda: private(mlp(hidden=7 + rank), table(RECORDS), noise_multiplier=1.0)),
        "optimizer": raised(
            lambda: private(model, table(RECORDS), half(model.parameters(), lr=0.5 + rank), noise_multiplier=1.0)
        ),
        "all": raised(lambda: private(mlp(), table(RECORDS), noise_multiplier=-1.0)),
        "one": raised(lambda: private(mlp(), table(RECORDS), noise_multiplier=1.0, random_state="a") if rank else
                      private(mlp(), table(RECORDS), noise_multiplier=1.0)),
    }  # fmt: skip
    run = private(mlp(), table(RECORDS), noise_multiplier=1.0)
    batches = iter(run.loader)
    run.step(cross_entropy, next(batches))
    if rank == 1:
        next(batches)
    found["batch"] = raised(lambda: run.step(cross_entropy, next(batches)))
    found["nothing charged"] = run.steps_
    saving = private(mlp(), table(RECORDS), noise_multiplier=1.0, checkpoint=folder / f"saving-{rank}")
    batch = next(iter(saving.loader))
    found["calls"] = raised(lambda: saving.save() if rank else saving.step(cross_entropy, batch))
    group = dist.new_group([1])  # a rank by itself; the other one is not in it
    found["group"] = raised(lambda: private(mlp(), table(RECORDS), noise_multiplier=1.0, distributed=group))

    def loss_fn(model, batch):
        if rank == 1:
            raise FloatingPointError("of rank 1")
        return cross_entropy(model, batch)

    run = private(mlp(), table(RECORDS), noise_multiplier=1.0, batch_size=30, epochs=3)
    run.step(cross_entropy, next(iter(run.loader)))
    before = [p.detach().clone() for p in run.model.parameters()]
    found["error"] = raised(lambda: run.step(loss_fn, next(iter(run.loader))))
    found["unmoved"] = all(torch.equal(*pair) for pair in zip(before, run.model.parameters(), strict=True))
    found["charged"] = run.steps_
    found["ended"] = raised(lambda: run.step(cross_entropy, next(iter(run.loader))))
    return found


def ledger(folder, rank):
    path = folder / "records.ledger"
    if rank == 0:
        dp.Ledger.create(path, epsilon=4.0, delta=1e-4, dataset="records")
    settings = {"noise_multiplier": None, "epsilon": 3.0, "ledger": path if rank == 0 else "/nowhere/at all"}
    private(mlp(), table(RECORDS), **settings)
    refused = raised(lambda: private(mlp(), table(RECORDS), **settings))
    return {"entries": len(dp.Ledger(path).history) if rank == 0 else 1, "refused": refused}


def wrapped(size):
    found = torch.tensor([2**63 - 1 if dist.get_rank() == 0 else 2**60 + 3, dist.get_rank()])
    Ranks().add_over_ranks(found)
    return found.tolist()


def lost(rank):
    """Rank 1 dies while the others wait for it."""

    def loss_fn(model, batch):
        if rank == 1:
            os._exit(0)
        return cross_entropy(model, batch)

    run = private(mlp(), table(RECORDS), noise_multiplier=1.0, batch_size=30, epochs=3)
    run.step(cross_entropy, next(iter(run.loader)))
    return {
        "first": raised(lambda: run.step(loss_fn, next(iter(run.loader)))),
        "then": raised(lambda: run.step(cross_entropy, next(iter(run.loader)))),
        "steps": run.steps_,
    }


def seeds():
    """Parameters of two unseeded runs, and that a rank alone is not part of them."""
    torch.manual_seed(100 + dist.get_rank())  # ranks begin with models of their own
    one, other = (private(mlp(), table(RECORDS), noise_multiplier=1.0).fit(cross_entropy) for _ in range(2))
    alone = private(mlp(), table(RECORDS), noise_multiplier=1.0, distributed=False)
    if dist.get_rank() == 0:
        alone.fit(cross_entropy)
    return [[p.detach() for p in run.model.parameters()] for run in (one, other)]


def job(rank, size, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/group-{size}", rank=rank, world_size=size,
        timeout=datetime.timedelta(seconds=60),
    )  # fmt: skip
    found = {
        "fixed": trained(**FIXED),
        "losses": trained(**LOSSES),
        "adaclip": trained(**ADACLIP),
        "padded": trained(**PADDED),
        "padded dpis": trained(**DPIS | PADDED),
        "sharded": sharded(size, folder, **FIXED),
        "dpis": trained(**DPIS),
        "share": trained(**SHARE),
        "dpis free": trained(algorithm=BY_NORMS),
        "dpis sharded": sharded(size, **DPIS),
        "candidates": candidates(**FIXED),
        "free candidates": candidates(arithmetic="float"),
        "free": trained(),
        "counted": trained(**COUNTED),
        "float": trained(arithmetic="float"),
        "noise": noise(),
        "secure noise": noise(random_state=None),
        "float noise": noise(arithmetic="float"),
        "shares": shares(None),
        "pieces": shares(1),
        "unseeded": seeds(),
        "one number": one_number(),
        "halting": halting(folder, {1: 7, 2: 14, 4: 20}[size]),
    }
    if size == 2:
        found |= {"wrong": wrong(rank, folder), "ledger": ledger(folder, rank), "wrapped": wrapped(size)}
        found |= {
            "sharded float": sharded(size, arithmetic="float", **FIXED),
            "whole float": trained(arithmetic="float", **FIXED),
            "sharded adam": sharded(size, optimizer=DPAdam, algorithm="dp-adam", **FIXED),
        }
        found["lost"] = lost(rank)
    torch.save(found, folder / f"{size}-{rank}.pt")
    os._exit(0)  # a group with a lost rank does not shut down


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    Philox(1).normal(1)
    torch.optim.SGD(mlp().parameters(), lr=1.0)  # imports what it needs
    if len(sys.argv) > 2:
        run_cases(folder / "killed", everything=True)
        sys.exit()
    run_cases(folder / "killed", everything=False)
    trained(**COUNTED)  # its noise is remembered by the children
    for size in (1, 2, 4):
        children = [fork(job, rank, size, folder) for rank in range(size)]
        for child in children:
            os.waitpid(child, 0)
