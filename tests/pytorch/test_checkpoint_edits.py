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


def test_paths_that_no_folder_can_have():
    for path in ("a\0b", "x" * 5000, "\ud800", b"folder"):
        with pytest.raises((ValueError, TypeError), match=r"^checkpoint must be"):
            open_run(path, None)
