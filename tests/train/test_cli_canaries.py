"""Strings and numbers that one record alone has stand in no file and on no screen, whatever the algorithm."""

import csv
import gzip

import numpy as np
import pytest

import tightdp as dp
from tightdp.cli import main
from tightdp.train.catalog import ALGORITHMS, MODELS

TEXTS = {"clinic": "Clinic of Jane Doe", "income": "Jane Does label", "name": "Jane Doe", "sex": "JaneDoeSex"}
NUMBERS = {"age": "61.7391853", "hours": "23.9174628"}
DECLARED = ["--label", "income", "--classes", "low,high", "--categories", "clinic=north,south", "--categories"]
DECLARED += ["sex=f,m", "--bounds", "age=18:90,hours=0:80", "--drop", "name", "--delta", "1e-6", "--epsilon", "1"]
DECLARED += ["--regularization", "0.01"]


def rows():
    g = np.random.default_rng(0)
    for k in range(300):
        age, hours = g.uniform(18, 90), g.uniform(0, 80)
        yield {
            "age": round(age, 2),
            "name": f"person {k}",
            "clinic": g.choice(["north", "south"]),
            "hours": round(hours, 2),
            "sex": g.choice(["f", "m"]),
            "income": "high" if age + hours > 90 else "low",
        }


def write(file, canaries):
    """A table in which one record holds a canary in every column, and one more for each column alone."""
    everyone = list(rows())
    everyone[7] |= canaries
    for k, (name, value) in enumerate(canaries.items()):
        everyone[20 + k][name] = value
    with gzip.open(file, "wt", newline="") as out:
        table = csv.DictWriter(out, list(everyone[0]), delimiter=";")
        table.writeheader()
        table.writerows(everyone)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_file_holds_one(tmp_path, algorithm, model, capfd):
    data, canaries = tmp_path / "people.csv.gz", TEXTS | NUMBERS
    write(data, canaries)
    files = {name: str(tmp_path / name) for name in ("people.model.json", "page.html", "budget.ledger", "new.csv")}
    model_file, page, ledger, new = files.values()
    budget = ["--dataset", "people", "--epsilon", "8", "--delta", "1e-5", "--failure", "5e-6"]
    assert main(["ledger", "create", ledger, *budget]) == 0
    huber = ["--set", "steps=3"] if algorithm == "noisy-gd" else []
    options = [*DECLARED, "--algorithm", algorithm, "--model", model, "--ledger", ledger, "--delimiter", ";", *huber]
    code = main(["train", str(data), *options])
    if model == "svm" and "perturbation" in algorithm:
        assert code == 2  # which needs a smooth loss
        data.unlink()
    else:
        assert code == 0
        assert main(["statement", model_file, "--out", page]) == 0
        data.unlink()
        with open(new, "w") as out:
            out.write("age,clinic,hours,sex\n30,north,50,f\n")
        assert main(["predict", model_file, new, "--out", str(tmp_path / "said.csv")]) == 0
        assert main(["ledger", "report", ledger, "--json"]) == 0
        assert dp.load(model_file).classes == ("high", "low")
    seen = capfd.readouterr()
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()} | {"screen": (seen.out + seen.err).encode()}
    assert len(written) > 1
    for value in canaries.values():
        for name, text in written.items():
            assert value.encode() not in text, (value, name)


@pytest.mark.parametrize("column", [*TEXTS, *NUMBERS])
def test_errors_hold_none(tmp_path, column, capfd):
    """The same table under declarations that do not fit it: one line, no file, and no cell."""
    data = tmp_path / "people.csv.gz"
    write(data, TEXTS | NUMBERS)
    for wrong in (["--bounds", f"{column}=0:1"], ["--drop", column], ["--categories", f"{column}=x,y"], []):
        main(
            ["train", str(data), *DECLARED, *wrong, "--delimiter", ";" if wrong else ",", "--out", str(tmp_path / "m")]
        )
        seen = capfd.readouterr()
        assert not any(value in seen.out + seen.err for value in (TEXTS | NUMBERS).values())
