"""Whoever holds a run alone takes its steps: not its forked children, and nobody that reads or copies its folder."""

import contextlib
import os
import shutil
import threading

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import cross_entropy, mlp, private, table

import tightdp as dp
from tightdp.torch import AfterFailure
from tightdp.torch.run.checkpoint import Checkpoint

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
STEPS = 20
DPIS = dp.train.DPIS(norm_share=None, norm_noise=40.0, reach=1.5)


def begin_run(folder=None, **settings):
    torch.manual_seed(5)
    noise = {} if "epsilon" in settings else {"noise_multiplier": 1.0}
    return private(mlp(), table(60), checkpoint=folder, epochs=2, **noise, **settings)


def take_step(run):
    run.step(cross_entropy, next(iter(run.loader)))


def count_steps(run):
    """How many steps a run takes until it is refused."""
    taken = 0
    with contextlib.suppress(dp.BudgetExceeded):
        while run.steps_ < run.plan.steps:
            take_step(run)
            taken += 1
    return taken


def in_child(work):
    """What ``work`` returns in a forked child, as text, or its error."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            found = str(work())
        except BaseException as error:
            found = f"{type(error).__name__}: {error}"
        os.write(write, found.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as text:
        return text.read()


def take_over(folder, **settings):
    """How many steps another process takes, which knows nothing of this one's runs."""
    return in_child(lambda: count_steps(begin_run(folder, **settings)))


def copy_with_copytree(folder):
    shutil.copytree(folder, folder.with_name("copy"))


def read_all_files(folder):
    for path in folder.iterdir():
        path.read_bytes()


@pytest.mark.parametrize("touch", [copy_with_copytree, read_all_files])
@pytest.mark.parametrize("settings", [{}, {"algorithm": DPIS, "epsilon": 3.0}])
def test_a_folder_that_its_own_process_reads_stays_held(tmp_path, touch, settings):
    """POSIX record locks would be gone: the holder and the other process would make 39 releases of 20."""
    run = begin_run(tmp_path / "run", **settings)
    take_step(run)
    touch(tmp_path / "run")
    assert "must not be in use" in take_over(tmp_path / "run", **settings)
    assert count_steps(run) == STEPS - 1


@pytest.mark.parametrize("ledger", [False, True])
def test_children_take_no_step_of_a_run(tmp_path, ledger):
    """They charge nothing and write nothing, and the run goes on as if they had not been."""
    settings = {}
    if ledger:
        settings["ledger"] = dp.Ledger.create(tmp_path / "ledger", epsilon=9.0, delta=1e-3, dataset="records")
    run = begin_run(tmp_path / "run", **settings)
    take_step(run)
    run.save()
    batch = next(iter(run.loader))
    files = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    parts = {
        "step": lambda: run.step(cross_entropy, batch),
        "fit": lambda: run.fit(cross_entropy),
        "save": run.save,
        "load_state_dict": lambda: run.load_state_dict(run.state_dict()),
        "audit": lambda: run.audit(cross_entropy),
    }
    for name, part in parts.items():
        assert in_child(part).startswith(f"RuntimeError: this run belongs to process {os.getpid()}, of which "), name
    for folder in (tmp_path / "run", AfterFailure(tmp_path / "run")):
        assert "must not be in use" in take_over(folder, **settings)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == files
    run.step(cross_entropy, batch)
    assert count_steps(run) == STEPS - 2
    if ledger:
        assert len(settings["ledger"].history) == 1


@pytest.mark.parametrize("folder", [True, False])
def test_a_child_in_the_middle_of_a_step_takes_no_other(tmp_path, folder):
    """A loss function may fork; the child's step is refused, whatever another thread of its parent holds."""
    run = begin_run(tmp_path / "run" if folder else None)
    found = []

    def forking(model, batch):
        if not found:
            found.append(in_child(lambda: run.step(cross_entropy, None)))
        return cross_entropy(model, batch)

    run.step(forking, next(iter(run.loader)))
    assert "this run belongs to process" in found[0] and count_steps(run) == STEPS - 1


def test_a_child_goes_on_once_its_parent_has_ended(tmp_path):
    """The parent is killed; its child, which had a copy of everything, takes the steps that are left, once."""
    read, write = os.pipe()
    parent = os.fork()
    if not parent:
        run = begin_run(tmp_path / "run")
        take_step(run)
        holder = os.getpid()
        if not os.fork():
            while os.getppid() == holder:
                pass
            os.write(write, in_child(lambda: count_steps(begin_run(tmp_path / "run"))).encode())
            os._exit(0)
        os.kill(holder, 9)
    os.waitpid(parent, 0)
    os.close(write)
    with os.fdopen(read) as text:
        assert text.read() == str(STEPS - 1)


@pytest.mark.parametrize("change", ["removed", "replaced", "put back"])
def test_a_run_whose_folder_was_changed_behind_it_stops(tmp_path, change):
    """Another process may hold the new lock: together they make the releases of one run."""
    run = begin_run(tmp_path / "run")
    take_step(run)
    lock = tmp_path / "run" / "lock"
    if change == "removed":
        lock.unlink()
    elif change == "replaced":
        shutil.copy(lock, tmp_path / "lock")
        os.replace(tmp_path / "lock", lock)
    else:
        copy_with_copytree(tmp_path / "run")
        shutil.rmtree(tmp_path / "run")
        os.rename(tmp_path / "copy", tmp_path / "run")
    assert take_over(tmp_path / "run") == str(STEPS - 1)
    before = [p.detach().clone() for p in run.model.parameters()]
    for call in (lambda: take_step(run), run.save):
        with pytest.raises(RuntimeError, match=r"does not hold its checkpoint|ended by an error"):
            call()
    assert all(map(torch.equal, run.model.parameters(), before))


@pytest.mark.parametrize("begun", [True, False])
def test_a_later_run_of_one_process_has_seen_every_step(tmp_path, monkeypatch, begun):
    """A step that another thread takes while the later run is made is not released twice."""
    folder = tmp_path / "run"
    first = begin_run(folder) if begun else None
    read = Checkpoint.read

    def go_on_meanwhile(checkpoint, about):
        found = read(checkpoint, about)
        monkeypatch.undo()
        thread = threading.Thread(target=take_step, args=(first or begin_run(folder),))
        thread.start()
        thread.join()
        return found

    monkeypatch.setattr(Checkpoint, "read", go_on_meanwhile)
    with pytest.raises(ValueError, match="another run of this process went on"):
        begin_run(folder)
    if begun:
        assert count_steps(first) == STEPS - 1
    else:
        assert count_steps(begin_run(folder)) == STEPS - 1
