"""Files are decoded once a fit: the copy has the same bits, nobody else can open it, and it leaves nothing behind."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from tightdp.model_selection import PrivateSearchCV
from tightdp.pipeline import PrivatePipeline
from tightdp.preprocessing import MinMaxScaler
from tightdp.records import decoded_copies
from tightdp.records.decoded_copies import CopiedBlocks
from tightdp.train import DPPCA, DPSGD, Blocks, CallableModel, FileBlocks, LogisticRegression, NoisyGD, Ridge, fit

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

N = 300
TARGET = {"epsilon": 1.0, "delta": 1e-5, "random_state": 3}


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A file, its columns, and a folder for copies that can be looked at."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    g = np.random.default_rng(0)
    X = g.normal(size=(N, 3)).astype(np.float32)
    X[5, 1] = np.nan
    y = np.where(X[:, 0] > 0, "yes", "no")
    columns = dict(zip("abc", X.T, strict=True))
    parquet.write_table(arrow.table({**columns, "y": y, "z": X[:, 0]}), tmp_path / "t.parquet", row_group_size=70)
    return tmp_path / "t.parquet", X, y


@pytest.fixture
def passes(monkeypatch):
    """How often files were decoded."""
    seen, decoded = [], FileBlocks.__iter__
    monkeypatch.setattr(FileBlocks, "__iter__", lambda self: seen.append(0) or decoded(self))
    return seen


def copies():
    """What open files there are in the folder for copies."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # of the listing itself
            if os.readlink(f"/proc/self/fd/{name}").startswith(tempfile.tempdir):
                found.append(os.fstat(int(name)))
    return found


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("algorithm", [NoisyGD(steps=4, center=0), DPSGD(epochs=3)])
def test_a_copy_has_the_bits_of_the_file_which_is_decoded_once(table, passes, algorithm, copy):
    path, X, y = table
    expected = LogisticRegression(algorithm, **TARGET, bounds=(-2, 2), public_size=N).fit(X, y)
    clf = LogisticRegression(algorithm, **TARGET, bounds=(-2, 2), public_size=N)
    clf.fit(FileBlocks(path, "y", list("abc"), rows=64, copy=copy))
    np.testing.assert_array_equal(clf._w, expected._w)
    assert (len(passes) == 1) == copy


def test_whatever_makes_passes_decodes_once(table, passes):
    path, X, _ = table
    Ridge(target_bounds=(-3, 3), **TARGET).fit(FileBlocks(path, "z", list("abc")))
    DPPCA(2, **TARGET).fit(FileBlocks(path, "z", list("abc")))
    model = CallableModel(3, lambda w, X, y: (X @ w - y)[:, None] * X)
    settings = {"epsilon": 1.0, "delta": 1e-5, "public_size": N, "random_state": 0}
    blocks = fit(model, FileBlocks(path, "z", list("abc")), None, NoisyGD(steps=3), **settings)
    assert len(passes) == 3
    assert (blocks.parameters == fit(model, X, X[:, 0], NoisyGD(steps=3), **settings).parameters).all()


def test_pipelines_and_searches_decode_once_for_all_that_they_do(table, passes):
    path, X, y = table
    X = np.nan_to_num(X)
    parquet.write_table(arrow.table({**dict(zip("abc", X.T, strict=True)), "y": y}), path)
    last = LogisticRegression(NoisyGD(steps=3), classes=["no", "yes"])
    pipeline = PrivatePipeline([("scale", MinMaxScaler()), ("fit", last)], epsilon=9.0, delta=1e-5, random_state=0)
    expected = clone(pipeline).fit(X, y).predict(X)
    assert (pipeline.fit(FileBlocks(path, "y")).predict(X) == expected).all()
    search = PrivateSearchCV(last, {"algorithm__max_norm": [0.5, 1.0]}, epsilon=9.0, delta=1e-5, random_state=0)
    assert clone(search).fit(X, y).best_params_ == search.fit(FileBlocks(path, "y")).best_params_
    assert len(passes) == 2


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux to look at open files")
@pytest.mark.parametrize("error", [None, KeyboardInterrupt, ValueError])
def test_a_copy_has_no_name_and_is_gone_after_the_fit(table, error):
    path, seen = table[0], []

    def look(done, total):
        seen.append(os.listdir(tempfile.tempdir))
        (copy,) = copies()
        assert copy.st_nlink == 0 and copy.st_mode & 0o077 == 0 and copy.st_size >= 12 * N
        if error is not None:
            raise error

    clf = LogisticRegression(NoisyGD(steps=2), **TARGET, callback=look)
    blocks = FileBlocks(path, "y", list("abc"))
    if error is None:
        clf.fit(blocks)
    else:
        with pytest.raises(error):
            clf.fit(blocks)
    assert seen and all(found == [] for found in seen)
    assert copies() == [] and os.listdir(tempfile.tempdir) == []


def no_such_folder(path):
    raise FileNotFoundError(path)


def test_where_no_copy_can_be_written_files_are_decoded_anew(table, passes, monkeypatch):
    path, X, y = table
    expected = LogisticRegression(NoisyGD(steps=3, center=0), **TARGET, public_size=N).fit(X, y)

    def again():
        passes.clear()
        blocks = FileBlocks(path, "y", list("abc"), rows=64)
        clf = LogisticRegression(NoisyGD(steps=3, center=0), **TARGET, public_size=N).fit(blocks)
        return (clf._w == expected._w).all() and len(passes)

    assert again() == 1
    monkeypatch.setattr(decoded_copies, "RESERVE", 2**80)  # the disk is nearly full
    assert again() == 4
    monkeypatch.undo()
    monkeypatch.setattr(FileBlocks, "__iter__", lambda self, read=FileBlocks.__iter__: passes.append(0) or read(self))
    monkeypatch.setattr(decoded_copies.shutil, "disk_usage", no_such_folder)
    assert again() == 4
    monkeypatch.undo()
    full = open("/dev/full", "r+b", 0)  # noqa: SIM115
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda buffering, dir: full)
    monkeypatch.setattr(FileBlocks, "__iter__", lambda self, read=FileBlocks.__iter__: passes.append(0) or read(self))
    assert again() == 4


def test_there_may_be_no_folder_for_a_copy(table, monkeypatch):
    (path, X, y), made = table, []
    expected = LogisticRegression(NoisyGD(steps=3), **TARGET).fit(X, y)
    monkeypatch.setenv("TMPDIR", str(path))  # Python would take another
    real = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda buffering, dir: made.append(real(dir=dir)) or made[0])
    found = LogisticRegression(NoisyGD(steps=3), **TARGET).fit(FileBlocks(path, "y", list("abc")))
    assert (found._w == expected._w).all() and not made


class Own(Blocks):
    """Blocks of the caller's own, which ask for a copy."""

    width, copied = 2, True

    def __init__(self, parts):
        self.parts, self.passes = parts, 0

    def __iter__(self):
        self.passes += 1
        yield from self.parts


@pytest.mark.parametrize(("labels", "passes"), [(np.array(["x", "y"]), 1), (np.array(["x", "y"], object), 3)])
def test_blocks_of_your_own_may_be_copied_too(labels, passes):
    """Of any sizes, empty ones among them, and with labels of other lengths; Python objects are not written."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = labels[(X[:, 0] > 0).astype(int)]
    cuts = [0, 7, 7, 40, 60]
    own = Own([(X[a:b], y[a:b]) for a, b in itertools.pairwise(cuts)])
    clf = LogisticRegression(NoisyGD(steps=2, center=0), **TARGET, public_size=60)
    assert (clf.fit(own)._w == clf.fit(X, y.astype(str))._w).all() and own.passes == passes


def test_a_pass_that_broke_off_is_not_taken_for_all_of_the_records():
    X, y = np.arange(12.0).reshape(6, 2), np.arange(6)
    with tempfile.TemporaryFile() as file:
        own = Own([(X[:3], y[:3]), (X[3:], y[3:])])
        blocks = CopiedBlocks(own, file)
        next(iter(blocks))
        for _ in range(3):
            found = list(blocks)
            assert (np.concatenate([x for x, _ in found]) == X).all()
            assert (np.concatenate([t for _, t in found]) == y).all()
        assert own.passes == 2


def test_arrow_files_are_not_copied(table, passes):
    feather = pytest.importorskip("pyarrow.feather")
    feather.write_feather(parquet.read_table(table[0]), table[0].with_name("t.arrow"))
    Ridge(target_bounds=(-3, 3), **TARGET).fit(FileBlocks(table[0].with_name("t.arrow"), "z", list("abc")))
    assert len(passes) == 2


def test_copy_is_a_truth_value(table):
    with pytest.raises(TypeError, match="copy must be True or False"):
        FileBlocks(table[0], "y", list("abc"), copy="no")
