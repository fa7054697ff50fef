"""A run in a folder: whatever is killed, what was released was charged, and what goes on has keys of its own."""

import contextlib
import json
import os
import shutil

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import cross_entropy, mlp, private, table

import tightdp as dp
from tightdp.ledger.ledger_facts import digest_ledger_values
from tightdp.torch import AfterFailure, DPAdam
from tightdp.torch.run.checkpoint import Checkpoint

SETTINGS = {"noise_multiplier": 1.0, "epochs": 2}


def halted(folder, steps, **settings):
    torch.manual_seed(5)
    model = mlp()
    if "optimizer" in settings:
        settings = {**settings, "optimizer": settings["optimizer"](model.parameters())}
    run = private(model, table(60), checkpoint=folder, **{**SETTINGS, **settings})
    while run.steps_ < steps:
        for batch in run.loader:
            run.step(cross_entropy, batch)
            if run.steps_ == steps:
                break
    return run


@pytest.mark.parametrize("settings", [{}, {"algorithm": "adaclip"}, {"algorithm": "dp-adam", "optimizer": DPAdam}])
def test_a_seeded_run_that_goes_on_is_the_one_that_never_stopped(tmp_path, settings):
    whole = halted(tmp_path / "whole", 20, random_state=9, **settings).fit(cross_entropy)
    halted(tmp_path / "run", 7, random_state=9, **settings).save()
    run = halted(tmp_path / "run", 0, random_state=9, **settings)
    assert run.steps_ == 7
    run.fit(cross_entropy)
    assert all(map(torch.equal, run.model.parameters(), whole.model.parameters()))
    assert run.history_ == whole.history_


def test_steps_that_were_charged_stay_charged(tmp_path):
    halted(tmp_path, 3).save()
    run = halted(tmp_path, 0)
    assert run.steps_ == 3
    before = [p.detach().clone() for p in run.model.parameters()]
    run.step(cross_entropy, next(iter(run.loader)))  # is not saved
    run = halted(tmp_path, 0)
    assert run.steps_ == 4
    assert all(map(torch.equal, run.model.parameters(), before))
    run.fit(cross_entropy)
    with pytest.raises(dp.BudgetExceeded):
        next(iter(halted(tmp_path, 0).loader))


def test_the_disk_has_a_step_before_it_is_released(tmp_path, monkeypatch):
    run = halted(tmp_path, 2)
    before = [p.detach().clone() for p in run.model.parameters()]

    def full(file, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            run.step(cross_entropy, next(iter(run.loader)))
    assert all(map(torch.equal, run.model.parameters(), before))
    assert run.steps_ == 3


def test_the_number_of_records_is_released_once_and_the_ledger_charged_once(tmp_path):
    book = dp.Ledger.create(tmp_path / "ledger", epsilon=5.0, delta=1e-3, dataset="records", failure=1e-4)
    settings = {"public_size": None, "epsilon": 3.0, "noise_multiplier": None, "ledger": book}
    plans = {halted(tmp_path / "run", 1, **settings).plan for _ in range(3)}
    assert len(plans) == 1 and len(book.history) == 1


def test_another_ledger_of_the_same_name_is_refused(tmp_path):
    """It was charged nothing for this run: a checkpoint knows its ledger by its identity."""
    names = ("one", "other")
    one, other = (dp.Ledger.create(tmp_path / name, epsilon=5.0, delta=1e-3, dataset="records") for name in names)
    halted(tmp_path / "run", 1, ledger=one)
    with pytest.raises(ValueError, match=r"^checkpoint must be of a run with this ledger.*Nothing was spent"):
        halted(tmp_path / "run", 0, ledger=other)
    assert len(one.history) == 1 and not other.history


def copy_of(folder, name):
    return shutil.copytree(folder, folder.with_name(name), ignore=lambda *_: ["lock"])


def taken_steps(run):
    """How many steps a run takes until it is refused."""
    before = [p.detach().clone() for p in run.model.parameters()]
    taken = 0
    with contextlib.suppress(dp.BudgetExceeded):
        while run.steps_ < run.plan.steps:
            run.step(cross_entropy, next(iter(run.loader)))
            before, taken = [p.detach().clone() for p in run.model.parameters()], taken + 1
    assert all(map(torch.equal, run.model.parameters(), before))  # a step that is refused releases nothing
    return taken


@pytest.mark.parametrize(
    "algorithm",
    ["dp-sgd", dp.train.DPIS(norm_share=None, norm_noise=40.0, reach=1.5), dp.train.DPIS(adapt=1.0, norm_noise=40.0)],
)
@pytest.mark.parametrize("steps", [0, 4])
def test_copies_of_a_checkpoint_take_the_steps_of_one_run(tmp_path, steps, algorithm):
    """One ledger, one charge: all copies together release each step once, and those behind are refused for good."""
    book = dp.Ledger.create(tmp_path / "ledger", epsilon=9.0, delta=1e-3, dataset="records", failure=1e-4)
    settings = {"ledger": book, "algorithm": algorithm, "epsilon": 3.0, "noise_multiplier": None}
    halted(tmp_path / "run", steps, **settings).save()
    folders = [tmp_path / "run", *(copy_of(tmp_path / "run", f"copy {i}") for i in range(3))]
    runs = [halted(folder, 0, **settings) for folder in folders]
    assert [taken_steps(run) for run in runs] == [20 - steps, 0, 0, 0] and len(book.history) == 1
    for folder in folders[1:]:
        for checkpoint in (folder, AfterFailure(folder)):
            with pytest.raises(ValueError, match=r"^checkpoint must be the copy .* went on last.*Nothing was spent"):
                halted(checkpoint, 0, **settings)
    assert halted(tmp_path / "run", 0, **settings).steps_ == 20 and len(book.history) == 1


def test_a_run_whose_copy_went_on_is_refused_at_its_next_step(tmp_path):
    book = dp.Ledger.create(tmp_path / "ledger", epsilon=9.0, delta=1e-3, dataset="records")
    run = halted(tmp_path / "run", 3, ledger=book)
    other = halted(copy_of(tmp_path / "run", "copy"), 4, ledger=book)
    assert taken_steps(run) == 0 and taken_steps(other) == 16
    with pytest.raises(RuntimeError, match="ended by an error"):
        run.step(cross_entropy, next(iter(run.loader)))


@pytest.mark.parametrize("recorded", [False, True])
def test_a_folder_is_never_behind_its_ledger(tmp_path, monkeypatch, recorded):
    """Wherever the charge of a step is cut off, the honest folder goes on, and the step stays charged."""
    book = dp.Ledger.create(tmp_path / "ledger", epsilon=9.0, delta=1e-3, dataset="records")
    run = halted(tmp_path / "run", 3, ledger=book)
    record = dp.Ledger.record_progress

    def cut(ledger, *arguments):
        if recorded:
            record(ledger, *arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(dp.Ledger, "record_progress", cut)
        with pytest.raises(KeyboardInterrupt):
            run.step(cross_entropy, next(iter(run.loader)))
    again = halted(tmp_path / "run", 0, ledger=book)
    assert again.steps_ == 4 and taken_steps(again) == 16 and len(book.history) == 1


def test_a_run_that_goes_on_without_a_ledger_says_so(tmp_path):
    words = "no other copy of this run went on"
    book = dp.Ledger.create(tmp_path / "ledger", epsilon=9.0, delta=1e-3, dataset="records")
    first, charged = halted(tmp_path / "one", 2), halted(tmp_path / "other", 2, ledger=book)
    first.save()
    for run in (first, charged, halted(tmp_path / "other", 0, ledger=book)):
        assert words not in run.statement_.to_json() + str(run.statement_)
    loaded = halted(tmp_path / "third", 0)
    loaded.load_state_dict(first.state_dict())
    for run in (halted(tmp_path / "one", 0), loaded):
        assert words in run.statement_.to_json() and words in str(run.statement_) and run.steps_ == 2
    loaded.save()
    assert halted(tmp_path / "third", 0).steps_ == 2


def test_other_runs_are_refused_and_nothing_is_spent(tmp_path):
    book = dp.Ledger.create(tmp_path / "ledger", epsilon=50.0, delta=1e-3, dataset="records")
    run = halted(tmp_path / "run", 3)
    run.save()
    others = {
        "plan": {"noise_multiplier": 2.0},
        "plan, ": {"epochs": 3},
        "random_state": {"random_state": 3},
        "ledger": {"ledger": book},
    }
    for text, settings in others.items():
        with pytest.raises(ValueError, match=f"^checkpoint must be of a run with this {text}"):
            halted(tmp_path / "run", 0, **settings)
    adam = mlp()
    with pytest.raises(ValueError, match="with this algorithm, 'dp-adam'"):
        private(
            adam, table(60), DPAdam(adam.parameters()), algorithm="dp-adam", checkpoint=tmp_path / "run", **SETTINGS
        )
    with pytest.raises(ValueError, match="the same parameters"):
        private(mlp(hidden=8), table(60), checkpoint=tmp_path / "run", **SETTINGS)
    assert not book.history and halted(tmp_path / "run", 0).steps_ == 3


@pytest.mark.parametrize("name", ["run.json", "charged", "tensors.pt"])
def test_damaged_folders_are_refused(tmp_path, name):
    halted(tmp_path, 2).save()
    file = tmp_path / name
    whole = file.read_bytes()
    for data in (None, b"", whole[: len(whole) // 2]):
        if data is None:
            file.unlink()
        else:
            file.write_bytes(data)
        if name == "charged" and data == whole[: len(whole) // 2]:
            data = b""
        gone = data is None or (name == "charged" and not data)
        words = "is missing" if data is None else "is damaged" if not gone else "lacks steps"
        with pytest.raises(ValueError, match=rf"^checkpoint must (be|hold).*({words})"):
            halted(tmp_path, 0)
    file.write_bytes(whole)
    assert halted(tmp_path, 0).steps_ == 2


@pytest.mark.parametrize("change", [{"state": 3}, {"state": {}}, {"about": None}, {"state": {"plan": {}}}])
def test_states_that_no_run_wrote_are_refused(tmp_path, change):
    halted(tmp_path, 2)
    file = tmp_path / "run.json"
    whole = json.loads(file.read_text())
    values = {**whole["values"], **change}
    file.write_text(json.dumps({**whole, "values": values, "digest": digest_ledger_values(values)}))
    with pytest.raises(ValueError, match=r"^checkpoint must be a folder .*: run.json is damaged"):
        halted(tmp_path, 0)
    file.write_text(json.dumps({**whole, "format": 1}))
    with pytest.raises(ValueError, match="of format 4 wrote, and its format is 1"):
        halted(tmp_path, 0)


def test_one_run_at_a_time(tmp_path):
    first = halted(tmp_path, 0)
    with pytest.raises(ValueError, match="with this plan"):
        halted(tmp_path, 0, noise_multiplier=2.0)  # takes over nothing
    first.step(cross_entropy, next(iter(first.loader)))
    later = halted(tmp_path, 2)
    assert later.steps_ == 2
    with pytest.raises(RuntimeError, match="taken over"):
        first.step(cross_entropy, next(iter(first.loader)))
    with pytest.raises(RuntimeError, match="taken over"):
        first.save()
    child = os.fork()
    if not child:  # another process
        try:
            from tightdp.torch.run import checkpoint

            checkpoint._locks.clear()
            Checkpoint(tmp_path)
        except ValueError as error:
            os._exit(7 if "must not be in use" in str(error) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    del first, later
    later = halted(tmp_path, 3)
    assert later.steps_ == 3


@pytest.mark.skipif(os.name != "posix", reason="needs the modes of POSIX")
def test_nobody_else_can_read_what_is_saved(tmp_path):
    before = os.umask(0)
    try:
        halted(tmp_path / "above" / "run", 2).save()
    finally:
        os.umask(before)
    assert (tmp_path / "above" / "run").stat().st_mode & 0o777 == 0o700
    files = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "above" / "run").iterdir()}
    assert files == dict.fromkeys(("lock", "run.json", "charged", "tensors.pt"), 0o600)


def test_folders_that_are_none(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (3, "", tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises((TypeError, ValueError), match=r"^checkpoint must be"):
            halted(folder, 0)
    with pytest.raises(RuntimeError, match="must be given a checkpoint"):
        private(mlp(), table(60), **SETTINGS).save()


def test_the_statement_names_the_entry_that_paid_for_the_run(tmp_path):
    """The run's name is the identifier in the ledger, also after it went on from its folder."""
    book = dp.Ledger.create(tmp_path / "ledger", epsilon=9.0, delta=1e-3, dataset="records")
    first = halted(tmp_path / "run", 2, ledger=book).statement_.ledger
    second = halted(tmp_path / "run", 3, ledger=book).statement_.ledger
    (entry,) = book.history
    assert first == second and first.endswith(f", release {entry.release}")
    assert book.read_progress(entry.release).releases == 3
