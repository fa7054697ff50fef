"""The scripts of bench/papers run, and the page of what they cover is what its command makes. No data set is needed."""

import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench" / "papers")]

data_sets = pytest.importorskip("data_sets")
command = pytest.importorskip("command")
contents = pytest.importorskip("contents")
coverage = pytest.importorskip("coverage")
dp_agd = pytest.importorskip("dp_agd")
sgd = pytest.importorskip("baselines.sgd")
noisy_max = pytest.importorskip("baselines.noisy_max")


@pytest.fixture
def made_up_data(monkeypatch):
    """Puts 200 records in the place of each data set."""
    rng = np.random.default_rng(0)
    X = rng.random((200, 5)).astype(np.float32)
    images = rng.random((400, 784)).astype(np.float32)
    labels = np.repeat(np.arange(10), 40)
    monkeypatch.setattr(data_sets, "table", lambda name: (X, (X[:, 0] > 0.5).astype(np.int64)))
    monkeypatch.setattr(data_sets, "images", lambda name: (images, labels, images[:50], labels[:50]))


def first_cells(tasks, *keys):
    """Returns the first cell of each combination of values."""
    return list({tuple(task.get(key) for key in keys): task for task in reversed(tasks)}.values())


@pytest.mark.slow
def test_each_part_of_dp_agd_runs(made_up_data, monkeypatch):
    monkeypatch.setattr(dp_agd, "DRAWS", 10)
    monkeypatch.setattr(dp_agd, "FOLDS", 2)
    for task in first_cells(dp_agd.tasks(("adult",), seeds=1), "part"):
        assert dp_agd.evaluate(task)
    for arm in dp_agd.BASELINES:
        found = dp_agd.evaluate(dp_agd.accuracy_task("adult", "logistic", arm, 0.8, 0))
        assert len(found["scores"]) == len(found["objectives"]) == 2 and found["bound"] <= 0.8
    assert "refused" in dp_agd.evaluate(dp_agd.accuracy_task("adult", "svm", "SGD-MA", 0.1, 0))


def test_each_part_of_dpis_runs(made_up_data):
    dpis = pytest.importorskip("dpis")
    for task in first_cells([t for t in dpis.tasks(1) if t.get("model") != "mlp"], "part"):
        assert dpis.evaluate(task)


@pytest.mark.slow
def test_each_part_of_adaclip_and_of_all_algorithms_runs(made_up_data, monkeypatch):
    adaclip, every = pytest.importorskip("adaclip"), pytest.importorskip("all_algorithms")
    for task in first_cells(adaclip.tasks(1), "part"):
        smallest = {"hidden": 5, "epochs": 1} if task["part"] == "table2" else {}
        assert adaclip.evaluate({**task, **smallest})["scores"] >= 0
    assert every.evaluate(every.tasks(1)[-1])["scores"]


def test_the_mean_gradient_of_the_perceptron_is_the_derivative_of_its_loss():
    adaclip = pytest.importorskip("adaclip")
    rng = np.random.default_rng(0)
    X, y, hidden = rng.normal(size=(7, 4)), rng.integers(0, 10, 7), 3
    w = rng.normal(size=hidden * 5 + 10 * (hidden + 1))

    def loss(w):
        first, last = w[:15].reshape(hidden, 5), w[15:].reshape(10, hidden + 1)
        scores = np.maximum(X @ first[:, :4].T + first[:, 4], 0) @ last[:, :3].T + last[:, 3]
        return np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(7), y])

    slopes = [(loss(w + 1e-6 * unit) - loss(w - 1e-6 * unit)) / 2e-6 for unit in np.eye(len(w))]
    assert adaclip.mean_gradient(w, X, y, hidden) == pytest.approx(slopes, abs=1e-7)


def test_each_arm_of_images_runs(made_up_data, monkeypatch):
    pytest.importorskip("torch")
    images = pytest.importorskip("images")
    monkeypatch.setattr(images, "scattered", data_sets.images)
    monkeypatch.setattr(images, "IMAGE_BATCH", 100)
    monkeypatch.setattr(images, "HELD_OUT", 50)
    monkeypatch.setattr(images, "PROXY_BATCH", 100)
    monkeypatch.setattr(images, "PROXY_STEPS", 4)
    for task in first_cells([task for task in images.tasks(1) if task["data"] == "mnist"], "part", "arm"):
        smallest = {"epochs": 2} if "batch" in task else {}
        assert images.evaluate({**task, **smallest})
    words = np.random.default_rng(0).integers(0, images.WORDS + 1, (400, 5))
    monkeypatch.setattr(data_sets, "reviews", lambda buckets, length: (words, words[:, 0] % 2, words[:50], np.ones(50)))
    monkeypatch.setattr(images, "REVIEW_BATCH", 100)
    for arm in (images.TEMPERED, images.DECAYING):
        assert images.evaluate({**images.task_of("imdb", arm, 1.0, 0), "epochs": 2})


def test_noise_that_decays_meets_epsilon_and_falls_by_one_factor():
    import tightdp as dp

    pytest.importorskip("torch")
    images = pytest.importorskip("images")
    task = {**images.task_of("imdb", images.DECAYING, 1.0, 0), "noise_decay": 0.5}
    stages = images.stages_of(task, records=4000, epochs=3)
    noises = [stage["noise_multiplier"] for stage in stages]
    assert np.diff(np.log(noises)) == pytest.approx([-0.5, -0.5], rel=1e-12)
    q = images.REVIEW_BATCH / 4000
    run = dp.Composition((dp.PoissonSampled(dp.Gaussian(noise), q), math.ceil(1 / q)) for noise in noises)
    assert run.epsilon(images.DELTA).upper == pytest.approx(1.0, rel=1e-6)


def test_one_fold_of_five_is_the_first_of_all_of_them(made_up_data):
    whole = dp_agd.accuracy_task("adult", "logistic", "NoisyGD", 0.8, 0)
    one, five = dp_agd.evaluate({**whole, "folds": 1}), dp_agd.evaluate(whole)
    assert one["scores"] == five["scores"][:1] and len(five["scores"]) == 5
    assert dp_agd.accuracy_task("kddcup99", "svm", "NoisyGD", 0.8, 0)["folds"] == 1


def test_each_figure_of_prv_has_a_cell_that_runs(monkeypatch):
    prv = pytest.importorskip("prv")
    monkeypatch.setattr(prv, "LEAST_SECONDS", 0.0)
    own = [task for task in prv.tasks() if task["method"] not in ("prv-accountant", "koskela")]
    for task in first_cells(own, "figure", "method"):
        found = prv.evaluate(task)
        assert found["truth"] <= found["upper"] or task["method"] == "gdp"
        assert found["lower"] <= found["truth"] or task["method"] == "gdp"


def test_the_command_line_selects_cells_and_goes_on(tmp_path, monkeypatch, capsys):
    tasks = [{"part": part, "arm": arm, "seed": seed} for part in "ab" for arm in "xy" for seed in range(3)]
    tasks.append({"part": "c", "arm": "w", "seed": 0})
    shown = []

    def show(found, folder):
        shown.append(found)
        assert folder.parts[-2:] == ("bench", "results")

    def call(*options):
        monkeypatch.setattr(sys, "argv", ["script", "--out", str(tmp_path / "cells.jsonl"), *options])
        return command.main("", tmp_path / "cells.jsonl", tasks, lambda task: {"sum": task["seed"]}, show)

    assert call("--parts", "a", "--arms", "y", "--seeds", "2") == 0
    assert [(c["part"], c["arm"], c["seed"]) for c in shown[-1]] == [("a", "y", 0), ("a", "y", 1)]
    assert call("--table") == 0 and len(shown[-1]) == 2
    assert call("--arms", "y") == 0 and [c["seed"] for c in shown[-1]] == [0, 0, 1, 1, 2, 2]
    assert len((tmp_path / "cells.jsonl").read_text().splitlines()) == 6
    for refused, message in (
        (("--arms", "z"), "argument --arms: invalid choice: 'z' (choose from"),
        (("--seeds", "4"), "argument --seeds: invalid choice: 4 (choose from"),
        (("--parts", "c", "--arms", "x"), "no cell has all of these values together"),
    ):
        with pytest.raises(SystemExit):
            call(*refused)
        assert message in capsys.readouterr().err


def test_the_page_is_what_its_command_makes():
    assert coverage.PAGE.read_text() == coverage.page(coverage.Results())


def test_the_page_names_files_and_options_that_exist():
    for paper in coverage.PAPERS:
        for item in paper.items:
            for path in re.findall(r"`([\w/]+(?:\.\w+|/))`", item.place):
                assert (ROOT / path).exists(), path
            for page in re.findall(r"\]\(([^)#]+)\)", item.place):
                assert (coverage.PAGE.parent / page).resolve().is_file(), page
            script = item.command.partition(" ")[0]
            assert not script or (ROOT / "bench" / "papers" / script).is_file(), script


def test_a_number_has_its_seeds_and_its_standard_error(tmp_path):
    lines = [{"task": {"arm": "a", "seed": seed}, "result": {"scores": score}} for seed, score in enumerate((1.0, 3.0))]
    lines.append(lines[0])  # two processes that shared the file finished the same cell
    (tmp_path / "one.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "two.jsonl").write_text(json.dumps({"task": {"arm": "a"}, "result": {"scores": [1.0, 2.0, 3.0]}}))
    results = coverage.Results(tmp_path)
    assert coverage.write_ours(coverage.Number("one", {"arm": "a"}), results) == "2.00 &plusmn; 1.00 (2)"
    assert coverage.write_ours(coverage.Number("two", {"arm": "a"}), results) == "2.00 &plusmn; 0.58 (3 folds)"
    assert coverage.write_ours(coverage.Number("one", {"arm": "b"}), results) == "not run"


def test_a_published_number_is_compared_with_the_last_row_that_has_a_result(tmp_path):
    lines = [{"task": {"arm": arm, "at": 0}, "result": {"scores": score}} for arm, score in (("a", 1.0), ("b", 3.0))]
    lines.append({"task": {"arm": "a", "at": 1}, "result": {"scores": 1.0}})
    (tmp_path / "one.jsonl").write_text("\n".join(map(json.dumps, lines)))
    rows = [
        (f"theirs | {arm}", [coverage.Number("one", {"arm": arm, "at": at}, 2.0) for at in range(3)]) for arm in "abc"
    ]
    grid = contents.Grid(["first", "second", "third"], rows)
    found = coverage.find_compared(grid, coverage.Results(tmp_path))
    assert [(label, column) for label, column, _ in found] == [("theirs | b", "first"), ("theirs | a", "second")]


def test_the_chosen_settings_are_the_best_on_held_out_images():
    cells = [cell for cell in coverage.Results().cells["images"] if cell["part"] == "choice"]
    scores = {}
    for cell in cells:
        scores.setdefault(cell["arm"], {}).setdefault(cell["data"], []).append(cell["average"])
    means = {
        arm: sum(np.mean(found) for found in own.values()) / len(own) for arm, own in scores.items() if len(own) == 2
    }
    assert max(means, key=means.get) == contents.BEST and len(means) > 1


def test_the_moments_accountant_ends_at_its_largest_order():
    """Lee and Kifer, section 6.3: at delta = 1e-8 one iteration costs about .5756. Its orders end at 32."""
    assert sgd.moments_epsilon(1e5, 0.005, 1, 1e-8) == pytest.approx(math.log(1e8) / 32, rel=1e-6)
    with pytest.raises(ValueError, match=r"no epsilon below 0\.5756"):
        sgd.noise_by_moments(0.5, 1e-8, 0.005, 100)


def test_noise_of_the_baselines_is_more_than_the_exact_account_asks():
    import tightdp as dp

    q, steps, delta = 0.005, 200, 1e-8
    for needed in (sgd.noise_by_moments, sgd.noise_by_advanced_composition):
        run = dp.PoissonSampled(dp.Gaussian(needed(1.0, delta, q, steps)), q) * steps
        assert run.epsilon(delta).upper <= 1.0


def test_moments_are_those_of_the_density_ratio():
    """E[(p/q)^(order + 1)] under q, by quadrature, for q = N(0, s^2) and p = (1-c) q + c N(1, s^2)."""
    x = np.linspace(-30, 30, 200_001)
    for order, s, c in ((1, 1.0, 0.3), (5, 2.0, 0.1), (32, 4.0, 0.01)):
        ratio = 1 - c + c * np.exp((2 * x - 1) / (2 * s**2))
        density = np.exp(-(x**2) / (2 * s**2)) / (s * math.sqrt(2 * math.pi))
        expected = math.log(float((density * ratio ** (order + 1)).sum() * (x[1] - x[0])))
        assert sgd.moment(order, s, c) == pytest.approx(expected, rel=1e-9)


def test_noisy_maxima_choose_as_their_laws_say():
    """Two scores a distance of 1 apart: Laplace, exponential and Gumbel noise choose the larger with known chances."""
    scores, epsilon, rng = np.array([0.0, 1.0]), 0.7, np.random.default_rng(0)
    smaller = math.exp(-epsilon)
    chances = {
        noisy_max.laplace_argmax: 1 - smaller * (2 + epsilon) / 4,
        noisy_max.exponential_argmax: 1 - smaller / 2,
        noisy_max.gumbel_argmax: 1 / (1 + smaller),
    }
    for choose, chance in chances.items():
        seen = np.mean([choose(scores, 1.0, epsilon, rng) for _ in range(20_000)])
        assert abs(seen - chance) < 5 * math.sqrt(chance * (1 - chance) / 20_000)
