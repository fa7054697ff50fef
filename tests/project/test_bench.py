"""The benchmarks run, and what they time is right. No peer takes part here."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

accountants = pytest.importorskip("accountants")
fft = pytest.importorskip("fft")


def test_accountants_of_ours(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(accountants, "RESULTS", tmp_path)
    monkeypatch.setattr(accountants, "SETTINGS", accountants.SETTINGS[:1] + accountants.SETTINGS[5:])
    rows = accountants.run(1, ["tightdp"])
    accountants.summary(rows)
    accountants.save(rows)
    assert {r.contender.name for r in rows} == {"tightdp prv", "tightdp grid", "tightdp auto"}
    assert all(r.holds for r in rows)
    assert (tmp_path / "accountants.csv").exists() and (tmp_path / "accountants.png").stat().st_size > 1000
    assert "median over the cases" in capsys.readouterr().out


def test_fft_compares_equal_answers():
    import numpy as np

    fft.assert_same_convolution(np.random.default_rng(0).random(4096))


def test_cuda_says_what_is_missing(capsys, monkeypatch):
    from tightdp import cuda

    if cuda.devices():
        pytest.skip("a CUDA device is at hand")
    import importlib.util

    path = Path(__file__).resolve().parents[2] / "bench" / "device.py"
    spec = importlib.util.spec_from_file_location("bench_cuda", path)
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    monkeypatch.setattr(sys, "argv", ["device.py"])
    assert bench.main() == 1
    assert capsys.readouterr().out == f"no timings: CUDA: {cuda.status()}\n"


def square(task):
    return {"square": task["x"] ** 2}


def refuse(task):
    raise AssertionError(f"{task} was run again")


def test_a_cell_is_kept_and_not_run_again(tmp_path):
    cells = pytest.importorskip("cells")
    file = tmp_path / "cells.json"
    assert [c["square"] for c in cells.run([{"x": 2}, {"x": 3}], square, file)] == [4, 9]
    assert cells.run([{"x": 3}, {"x": 2}], refuse, file) == [{"x": 3, "square": 9}, {"x": 2, "square": 4}]
    assert cells.spread([1.0, 3.0]) == "2.00 +- 1.00"


def test_quality_of_probabilities():
    import numpy as np

    quality = pytest.importorskip("quality")

    class Sure:
        classes_ = np.array([0, 1])

        def predict_proba(self, X):
            return X

        def predict_log_proba(self, X):
            return np.log(X)

    X, y = np.array([[0.25, 0.75]] * 4 + [[0.9, 0.1]] * 2), np.array([1, 1, 1, 0, 0, 1])
    found = quality.quality(Sure(), X, y)
    assert found["scores"] == pytest.approx(100 * 4 / 6)
    assert found["losses"] == pytest.approx(-(3 * np.log(0.75) + np.log(0.25) + np.log(0.9) + np.log(0.1)) / 6)
    assert found["calibration"] == pytest.approx(100 * 2 / 6 * 0.4)  # .75 is right; .9 is right half of the time


def test_cifar_10_is_read_from_a_file_of_its_format(tmp_path):
    import io
    import tarfile

    import numpy as np

    data_sets = pytest.importorskip("data_sets")
    rng, archive, made = np.random.default_rng(0), tmp_path / "cifar-10-binary.tar.gz", []
    with tarfile.open(archive, "w:gz") as tar:
        for name in [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]:
            rows = rng.integers(0, 256, (4, 3073), dtype=np.uint8)
            rows[:, 0] %= 10
            made.append(rows)
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            entry.size = rows.size
            tar.addfile(entry, io.BytesIO(rows.tobytes()))
    X, y, test_X, test_y = data_sets.cifar10(archive)
    assert X.shape == (20, 3072) and X.dtype == np.float32 and test_X.shape == (4, 3072)
    assert (np.concatenate(made[:5])[:, 1:] == X * 255).all() and (test_X * 255 == made[5][:, 1:]).all()
    assert (y == np.concatenate(made[:5])[:, 0]).all() and (test_y == made[5][:, 0]).all()
    with pytest.raises(Exception, match=r"put cifar-10-binary\.tar\.gz"):
        data_sets.cifar10(tmp_path / "nothing.tar.gz")
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    with pytest.raises(Exception, match=r"holds no cifar-10-batches-bin/data_batch_1\.bin"):
        data_sets.cifar10(tmp_path / "empty.tar")


def test_cells_are_lines_that_processes_share(tmp_path, capsys):
    cells = pytest.importorskip("cells")
    file = tmp_path / "cells.jsonl"
    tasks = [{"x": 2}, {"x": 3}]
    assert cells.until(tasks, refuse, file, minutes=-1) == {}
    assert [c["square"] for c in cells.until(tasks[:1], square, file, minutes=1).values()] == [4]
    cells.until([{"x": 4}], square, file, minutes=1)  # as another process does
    found = cells.until(tasks, lambda task: square(task) if task["x"] == 3 else refuse(task), file, minutes=1)
    assert list(found.values()) == [{"x": 2, "square": 4}, {"x": 3, "square": 9}]
    assert len(file.read_text().splitlines()) == 3 and cells.kept(file).keys() > found.keys()

    def be_slower_than_another(task):
        cells.until([task], square, file, minutes=1)
        return square(task)

    assert cells.until([{"x": 5}], be_slower_than_another, file, minutes=1)
    assert len(file.read_text().splitlines()) == 4


def test_the_printed_algorithm_is_the_one_of_the_page():
    """docs/algorithms/dp-agd.md names the settings that bench/papers/dp_agd.py calls printed."""
    page = " ".join((ROOT / "docs" / "algorithms" / "dp-agd.md").read_text().split())
    script = " ".join((ROOT / "bench" / "papers" / "dp_agd.py").read_text().split())
    said, used = (re.search(r"DPAGD\( ?(selections=380.*?) ?\)", text)[1] for text in (page, script))
    assert dict(part.split("=") for part in said.split(", ")) == dict(part.split("=") for part in used.split(", "))


def test_the_table_of_widths_is_that_of_the_raw_results():
    atlas = pytest.importorskip("width_atlas")
    rows = atlas.load()
    text = atlas.PAGE.read_text()
    assert atlas.page(text, rows) == text
    assert [(row["family"], row["relation"], row["run"]) for row in rows[:: len(atlas.DELTAS)]] == [
        (name, relation, str(run)) for name, relation, run in atlas.cells()
    ]
    for row in rows:
        assert 0 <= float(row["lower"]) <= float(row["upper"])


def test_cells_of_the_table_of_widths_are_found_again():
    """The same ends, but for roundings where compilers differ; times depend on the machine."""
    atlas = pytest.importorskip("width_atlas")
    kept = atlas.load()
    names = [name for name, _, _ in atlas.cells()]
    for name in ("Gaussian", "the same, few outcomes", "pure, approximate"):
        number = names.index(name)
        for again, row in zip(atlas.measure(number), kept[3 * number : 3 * number + 3], strict=True):
            assert {field: str(again[field]) for field in ("family", "relation", "run", "delta")} == {
                field: row[field] for field in ("family", "relation", "run", "delta")
            }
            assert again["lower"] == pytest.approx(float(row["lower"]), rel=1e-9)
            assert again["upper"] == pytest.approx(float(row["upper"]), rel=1e-9)


def test_widths_are_rounded_up():
    atlas = pytest.importorskip("width_atlas")
    assert [atlas._power(x) for x in (0.0, 1.0, 0.0123, 9.99e-5)] == ["0", "1.0e+00", "1.3e-02", "1.0e-04"]
    assert atlas.width({"lower": "1", "upper": "inf"}) == 1.0 and atlas.width({"lower": "inf", "upper": "inf"}) == 0.0
