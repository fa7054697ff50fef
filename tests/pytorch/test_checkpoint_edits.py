"""Files of a checkpoint that somebody changed: the run goes on with what was charged, or one error says which file."""

import os
import re

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import cross_entropy, mlp, private, table

import tightdp as dp

DPIS = dp.train.DPIS(norm_share=None, norm_noise=40.0, reach=1.5)
WORDS = r"^checkpoint(\.plan\.records|\.\w+)? must "
STEPS = 3


def open_run(folder, ledger):
    torch.manual_seed(5)
    return private(mlp(), table(60), checkpoint=folder, algorithm=DPIS, epsilon=3.0, epochs=2, ledger=ledger)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of a run after some steps, the bytes of its files, its ledger and its parameters."""
    folder = tmp_path_factory.mktemp("saved")
    ledger = dp.Ledger.create(folder / "ledger", epsilon=9.0, delta=1e-3, dataset="records", failure=1e-4)
    run = open_run(folder / "run", ledger)
    for _ in range(STEPS):
        run.step(cross_entropy, next(iter(run.loader)))
    run.save()
    files = {path.name: path.read_bytes() for path in (folder / "run").iterdir() if path.name != "lock"}
    return folder / "run", files, ledger, run.history_


@pytest.fixture
def place(saved):
    """The folder as it was saved, and as it is again at the end."""
    folder, files, *_ = saved
    yield folder
    for path in folder.iterdir():
        if path.name != "lock":
            path.rmdir() if path.is_dir() else path.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)


def is_refused(saved):
    """Whether the folder is refused, in words that name the argument; if it is not, everything charged is there."""
    folder, _, ledger, history = saved
    try:
        run = open_run(folder, ledger)
    except ValueError as error:
        message = str(error)
        assert re.match(WORDS, message) and len(message) < 2500, message
        assert len(ledger.history) == 1
        return True
    assert run.history_ == history and len(ledger.history) == 1
    return False


def test_the_folder_goes_on_as_it_is(saved, place):
    assert not is_refused(saved)


@pytest.mark.parametrize("name", ["run.json", "charged", "shares.json", "turns.json", "tensors.pt"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "missing"])
def test_a_file_that_is_none_is_refused_at_once(saved, place, name, kind):
    path = place / name
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    with pytest.raises(ValueError, match=rf"^checkpoint must .*: {name} is .*Nothing was spent") as seen:
        open_run(place, saved[2])
    assert ("is missing. Put the file back" in str(seen.value)) == (kind == "missing")


@pytest.mark.parametrize("name", ["run.json", "charged", "tensors.pt"])
def test_a_pipe_where_a_file_will_be_written(saved, place, name):
    os.mkfifo(place / f"{name}.new")
    with pytest.raises(ValueError, match=rf"^checkpoint must .*: {name}.new is damaged"):
        open_run(place, saved[2])


@pytest.mark.parametrize("name", ["run.json", "charged", "shares.json", "turns.json", "tensors.pt"])
def test_a_changed_byte_anywhere_is_refused_by_the_name_of_its_file(saved, place, name):
    """A weight of ``tensors.pt`` could be changed by 38 orders of magnitude, and the run went on from it."""
    whole = saved[1][name]
    weight = open_run(place, saved[2]).model[0].weight.detach().numpy().tobytes()
    flipped = [len(whole) // 2, len(whole) - 1, *([whole.index(weight) + 3] if name == "tensors.pt" else [])]
    changed = [whole[:k] + bytes([whole[k] ^ 0x41]) + whole[k + 1 :] for k in flipped]
    for data in (*changed, whole + b"\n", whole + b"x", *([] if name == "charged" else [whole + whole, b""])):
        (place / name).write_bytes(data)
        with pytest.raises(ValueError, match=rf"^checkpoint must be .*: {name} is damaged: \S.*Nothing was spent"):
            open_run(place, saved[2])


@pytest.mark.parametrize("point", ["before", "after"])
def test_a_save_that_is_cut_short_leaves_a_folder_that_goes_on(saved, place, monkeypatch, point):
    """The digests of both files are known while one takes the place of the other."""
    replace = os.replace

    def stop(source, target):
        if not str(target).endswith("tensors.pt"):
            return replace(source, target)
        if point == "after":
            replace(source, target)
        raise KeyboardInterrupt

    run = open_run(place, saved[2])
    weight = run.model[0].weight
    last = weight.detach().clone()
    with torch.no_grad():
        weight.add_(1.0)
    with monkeypatch.context() as killed:
        killed.setattr(os, "replace", stop)
        with pytest.raises(KeyboardInterrupt):
            run.save()
    again = open_run(place, saved[2])
    assert torch.equal(again.model[0].weight, last if point == "before" else weight)
    again.save()
    assert torch.equal(open_run(place, saved[2]).model[0].weight, again.model[0].weight)


def test_paths_that_no_folder_can_have():
    for path in ("a\0b", "x" * 5000, "\ud800", b"folder"):
        with pytest.raises((ValueError, TypeError), match=r"^checkpoint must be"):
            open_run(path, None)
