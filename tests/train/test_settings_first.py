"""Settings that no data can mend are refused before a ledger is charged, with every algorithm and a private count."""

import numpy as np
import pytest

import tightdp as dp
from tightdp.cli import main
from tightdp.train import DPSGD, LinearSVC, LogisticRegression, ObjectivePerturbation, OutputPerturbation

X = np.random.default_rng(0).random((400, 2))
Y = (X[:, 0] > 0.5).astype(int)


@pytest.mark.parametrize(
    ("estimator", "targets", "message"),
    [
        (LogisticRegression(ObjectivePerturbation()), Y, "regularization must be > 0"),
        (LogisticRegression(OutputPerturbation()), Y, "regularization must be > 0"),
        (LogisticRegression(ObjectivePerturbation(), regularization=0.1), np.arange(400) % 3, "classes must be two"),
        (LinearSVC(ObjectivePerturbation(), fit_intercept=False), Y, "a linear model with a smooth loss"),
        (LogisticRegression(DPSGD(batch_size=100, noise_multiplier=1.0)), Y, "epsilon and noise_multiplier exclude"),
    ],
)
def test_nothing_is_spent(tmp_path, estimator, targets, message):
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=2.0, delta=1e-4, dataset="test", failure=5e-5)
    estimator.set_params(epsilon=0.5, delta=1e-5, ledger=ledger, classes=sorted(set(targets.tolist())))
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, targets)
    assert ledger.spent == 0 and not ledger.history


@pytest.mark.parametrize("learned", [[], ["--learn-bounds", "x0"], ["--learn-classes"]])
def test_nothing_is_spent_from_the_command_line(tmp_path, learned, capsys):
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=2.0, delta=1e-4, dataset="test", failure=5e-5)
    rows = "\n".join(f"{a!r},{b!r},{'ab'[y]}" for (a, b), y in zip(X.tolist(), Y.tolist(), strict=True))
    (tmp_path / "t.csv").write_text("x0,x1,y\n" + rows + "\n")
    classes = [] if "--learn-classes" in learned else ["--classes", "a,b"]
    asked = ["--label", "y", *classes, "--epsilon", "0.5", "--delta", "1e-5", "--ledger", str(tmp_path / "l"), *learned]
    assert main(["train", str(tmp_path / "t.csv"), *asked, "--algorithm", "objective-perturbation"]) == 2
    assert "regularization must be > 0" in capsys.readouterr().err
    assert ledger.spent == 0 and not (tmp_path / "t.model.json").exists()
