"""tightdp train --model ridge: a regression of a table, its file, and what it does not take."""

import json

import numpy as np
import pytest

import tightdp as dp
from tightdp.cli import main
from tightdp.train import Ridge

REGRESSION = ["--label", "income", "--model", "ridge", "--delta", "1e-6", "--epsilon", "4"]


@pytest.fixture
def incomes(tmp_path):
    """An income that follows from age and sex: 3 age + 20 for one of them, and 10."""
    g, file = np.random.default_rng(2), tmp_path / "incomes.csv"
    ages, sexes = g.integers(18, 90, 6000), g.choice(["f", "m"], 6000)
    income = 3 * ages + 20 * (sexes == "m") + 10
    lines = [
        f"{age},{sex},{'' if k == 5 else one}"
        for k, (age, sex, one) in enumerate(zip(ages, sexes, income, strict=True))
    ]
    file.write_text("\n".join(["age,sex,income", *lines]) + "\n")
    return file


DECLARED = ["--bounds", "age=18:90", "--categories", "sex=f,m", "--target-bounds", "0:400"]


def test_a_regression(incomes, capsys):
    assert main(["train", str(incomes), *REGRESSION, *DECLARED, "--dry-run", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    whole = incomes.with_name("whole.csv")
    whole.write_text("age,sex,income\n20,f,70\n80,m,270\n50,f,160\n")
    assert main(["train", str(incomes), *REGRESSION, *DECLARED, "--test", str(whole)]) == 0
    seen = capsys.readouterr()
    assert float(seen.out.partition("R^2 on the test file (not private): ")[2].split()[0]) > 0.9
    assert "1 of 6,000 records have no number 'income', and contribute nothing" in seen.err
    path = incomes.with_suffix(".model.json")
    model = dp.load(path)
    assert said["charged"] == repr(model.statement.charged) and model.statement.privacy.upper <= 4
    assert model.statement.public["bounds of the target"] == "declared: [0, 400]" and not model.statement.taken
    table = {"age": [20, 80, 50], "sex": ["f", "m", "f"]}
    predicted = model.predict(table)
    np.testing.assert_allclose(predicted, [70, 270, 160], atol=25)
    made = model.to_sklearn()
    np.testing.assert_allclose(made.predict(model.encode(table)), predicted, rtol=1e-12)
    assert main(["verify", str(path)]) == 0 and main(["statement", str(path)]) == 0
    capsys.readouterr()
    assert main(["predict", str(path), str(whole)]) == 0
    assert capsys.readouterr().out.split() == ["income", *map(repr, predicted.tolist())]
    assert main(["test", str(path), str(whole), "--epsilon", "1", "--delta", "1e-6"]) == 2
    assert "predicts numbers, of which there is no accuracy" in capsys.readouterr().err
    with pytest.raises(ValueError, match="model must be"):
        model.predict_proba(table)
    with pytest.raises(ValueError, match="model must be a classifier"):
        model.to_onnx()


def test_a_regression_is_that_of_the_library(incomes):
    assert main(["train", str(incomes), *REGRESSION, *DECLARED, "--seed", "3", "--regularization", "2"]) == 0
    model = dp.load(incomes.with_suffix(".model.json"))
    cells = [line.split(",") for line in incomes.read_text().splitlines()[1:]]
    X = np.array([[(float(age) - 18) / 72, sex == "f", sex == "m"] for age, sex, _ in cells])
    y = np.array([float(income or 0) for *_, income in cells])
    X[5] = np.nan
    made = Ridge(4.0, 1e-6, bounds=(0, 1), target_bounds=(0, 400), regularization=2.0, random_state=3).fit(X, y)
    np.testing.assert_array_equal(model.coef[0], made.coef_)
    assert model.intercept[0] == made.intercept_


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ([], "--target-bounds LOW:HIGH must be given with --model ridge"),
        (["--target-bounds", "low:9"], "--target-bounds low:9: must be LOW:HIGH"),
        (["--target-bounds", "9:0"], "--target-bounds 9:0: must be LOW:HIGH with LOW < HIGH, both finite"),
        ([*DECLARED, "--classes", "a,b"], "--classes: must be left out with --model ridge"),
        ([*DECLARED, "--learn-classes"], "--classes: must be left out with --model ridge"),
        ([*DECLARED, "--set", "steps=3"], "--model ridge: takes no --algorithm, --set or --public-size"),
        ([*DECLARED, "--algorithm", "dp-sgd"], "--model ridge: takes no --algorithm, --set or --public-size"),
        ([*DECLARED, "--public-size", "9"], "--model ridge: takes no --algorithm, --set or --public-size"),
        ([*DECLARED, "--fill", "age=learn"], "--model ridge: takes declared columns alone"),
        ([*DECLARED[2:], "--learn-bounds", "age"], "--model ridge: takes declared columns alone"),
        ([*DECLARED, "--model", "svm", "--classes", "a,b"], "--target-bounds 0:400: must be left out unless"),
        ([*DECLARED[:-1], "0:1e300"], "target_bounds must lie in [-1e+60, 1e+60]"),
        ([*DECLARED, "--regularization", "-1"], "regularization must be a number in [0, inf)"),
        ([*DECLARED, "--seed", str(2**64)], "random_state must be an integer in [0, 18446744073709551615]"),
        ([*DECLARED, "--label", "sex"], "'sex' is the label and cannot be a feature as well"),
    ],
)
def test_what_a_regression_does_not_take_is_said_before_it_spends(incomes, tmp_path, options, line, capsys):
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=9.0, delta=1e-5, dataset="incomes")
    for more in ([], ["--dry-run"]):
        assert main(["train", str(incomes), *REGRESSION, *options, "--ledger", str(tmp_path / "l"), *more]) == 2
        err = capsys.readouterr().err
        *notes, last = err.splitlines()
        assert line in last and all("not to be published" in note for note in notes) and ledger.spent == 0
