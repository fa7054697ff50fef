"""tightdp train where bounds, categories and missing numbers are learned: one account for all of it."""

import json

import numpy as np
import pytest

import tightdp as dp
from tightdp.cli import main

G = np.random.default_rng(4)
AGES = G.integers(18, 90, 3000)
LINES = ["age,income,clinic,name,ill"]
for k, age in enumerate(AGES):
    income = "?" if k % 9 == 0 else f"{G.lognormal(10, 1):.2f}"
    clinic = "Clinic of Jane Doe" if k == 7 else ("north", "south")[k % 2]
    LINES.append(f"{age},{income},{clinic},p{k},{'yes' if age > 50 else 'no'}")
ASKED = ["--label", "ill", "--classes", "no,yes", "--drop", "name", "--epsilon", "2", "--delta", "1e-6"]
LEARN = ["--learn-bounds", "age,income", "--learn-categories", "clinic", "--fill", "income=learn"]


@pytest.fixture
def data(tmp_path):
    file = tmp_path / "people.csv"
    file.write_text("\n".join(LINES) + "\n")
    return file


def test_all_of_it_is_learned_within_one_budget(data, capsys):
    assert main(["train", str(data), *ASKED, *LEARN, "--test", str(data), "--fill", "age=40"]) == 0
    printed = capsys.readouterr().out
    model = dp.load(data.with_suffix(".model.json"))
    assert 1.99 < model.statement.privacy.upper <= 2 and "not private): 0.9" in printed
    assert sorted(column.name for column in model.columns) == ["age", "clinic", "income"]
    columns = {column.name: column for column in model.columns}
    assert columns["clinic"].categories == ("north", "south") and columns["age"].missing == 40
    assert 5_000 < columns["income"].missing < 100_000 and columns["income"].low < columns["income"].high
    said = "\n".join(model.statement.released)
    assert "bounds of age, by noisy quantiles" in said and "clinic, by noisy counts: north, south" in said
    assert "a noisy median of income" in said
    assert model.statement.public["missing numbers of age"] == "declared: 40 stands for them"
    assert not any(name.startswith(("bounds", "categories")) for name in model.statement.public)
    assert "Jane" not in data.with_suffix(".model.json").read_text() + printed
    given = {"age": [20, 80, None], "income": [1e4, None, None], "clinic": ["north", "south", "x"]}
    assert model.predict(given).tolist()[:2] == ["no", "yes"]


def test_a_seed_repeats_what_is_learned(data):
    texts = []
    for _ in range(2):
        assert main(["train", str(data), *ASKED, *LEARN, "--fill", "age=40", "--seed", "3", "--force"]) == 0
        texts.append(data.with_suffix(".model.json").read_text())
    assert texts[0] == texts[1] and dp.load(data.with_suffix(".model.json")).statement.seeded


def test_a_draft_for_learning_holds_no_values(data, capsys):
    assert main(["schema", str(data), "--label", "ill", "--learn"]) == 0
    path = data.with_name("people.schema.json")
    draft = json.loads(path.read_text())
    assert draft.pop("draft") in capsys.readouterr().err
    assert draft == {
        "tightdp_schema": 1,
        "label": "ill",
        "classes": "learn",
        "columns": {
            "age": {"bounds": "learn"},
            "income": {"bounds": "learn", "missing": "learn"},
            "clinic": {"categories": "learn"},
            "name": {"drop": True},
        },
    }
    path.write_text(json.dumps(draft))
    assert main(["train", str(data), "--schema", str(path), "--epsilon", "2", "--delta", "1e-6"]) == 0
    assert dp.load(data.with_suffix(".model.json")).statement.privacy.upper <= 2


@pytest.mark.parametrize(
    "others", [LEARN, ["--categories", "clinic=north,south", "--bounds", "age=18:90,income=0:1e5"]]
)
def test_labels_are_learned_with_and_without_other_columns(data, others, capsys):
    """A label that is one record's own stands nowhere, and a missing one is none."""
    text = data.read_text().replace(",p9,no", ",p9,Jane Does").replace(",p11,yes", ",p11,")
    data.write_text(text.replace(",p9,yes", ",p9,Jane Does").replace(",p11,no", ",p11,"))
    asked = ["--learn-classes", *ASKED[:2], *ASKED[4:], *others]
    assert main(["train", str(data), *asked, *([] if others is LEARN else ["--fill", "income=20000"])]) == 0
    seen, model = capsys.readouterr(), dp.load(data.with_suffix(".model.json"))
    assert model.classes == ("no", "yes") and 1.99 < model.statement.privacy.upper <= 2
    assert "Jane" not in seen.out + seen.err + data.with_suffix(".model.json").read_text()
    shown = "labels, by noisy counts: no, yes; records with any other label contribute nothing"
    assert shown in model.statement.released and "labels" not in model.statement.public
    assert model.predict({"age": [20, 80], "income": [1e4, 1e4], "clinic": ["north", "x"]}).tolist() == ["no", "yes"]


def test_a_ledger_pays_once_for_all_of_it(data, tmp_path, capsys):
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=2.4, delta=1e-5, dataset="test", failure=1e-6)
    assert main(["train", str(data), *ASKED, *LEARN, "--ledger", str(tmp_path / "l")]) == 0
    (entry,) = ledger.history
    model = dp.load(data.with_suffix(".model.json"))
    assert ledger.account.composition == model.statement.charged and entry.note == "PrivatePipeline.fit"
    assert main(["train", str(data), *ASKED, *LEARN, "--ledger", str(tmp_path / "l"), "--force"]) == 3
    assert len(ledger.history) == 1
    capsys.readouterr()


def test_a_column_without_a_frequent_value_is_left_out(data, capsys):
    options = [*ASKED[:5], *ASKED[6:], "--learn-categories", "name,clinic", "--bounds", "age=18:90,income=0:100000"]
    assert main(["train", str(data), *[o for o in options if o != "--drop"], "--fill", "income=0"]) == 0
    model = dp.load(data.with_suffix(".model.json"))
    assert "name" not in [column.name for column in model.columns]
    assert "categories of name, by noisy counts: none was frequent, so the column is left out" in (
        model.statement.released
    )
    capsys.readouterr()


def test_what_is_declared_for_missing_numbers_is_used(data, capsys):
    declared = [*ASKED, "--bounds", "age=18:90,income=0:100000", "--categories", "clinic=north,south"]
    assert main(["train", str(data), *declared]) == 2
    assert "has no income" in capsys.readouterr().err
    assert main(["train", str(data), *declared, "--fill", "income=20000"]) == 0
    model = dp.load(data.with_suffix(".model.json"))
    a, b = (model.decision_function({"age": [50], "income": [x], "clinic": ["north"]}) for x in (None, 20_000))
    assert a == b and model.statement.public["missing numbers of income"] == "declared: 20000 stands for them"
    plain = json.loads(data.with_suffix(".model.json").read_text())
    assert [c.get("missing") for c in plain["columns"]] == [None, 20_000, None] and "missing" not in plain["columns"][0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--learn-bounds", "age,income,clinic", "--categories", "clinic=a"], "both categorical and bounded"),
        (["--learn-bounds", "age", "--bounds", "age=0:1"], "age: is declared as well"),
        (["--learn-bounds", "nothing"], "no column 'nothing'"),
        (["--learn-bounds", "age,income,clinic"], "not a number"),
        (["--learn-categories", "clinic", "--fill", "clinic=3"], "'clinic' holds no numbers"),
        (["--fill", "income=x"], "must be COLUMN=NUMBER"),
        (["--fill", "income=nan"], "must be COLUMN=NUMBER"),
        (["--fill", "income=1,income=2"], "once a column"),
        (["--learn-bounds", "ill"], "is the label"),
        (["--learn-classes"], "--classes no,yes: must be left out beside --learn-classes"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(data, options, message, capsys):
    assert main(["train", str(data), *ASKED, *options]) == 2
    assert message in capsys.readouterr().err and not data.with_suffix(".model.json").exists()


@pytest.mark.parametrize("column", [{"bounds": "guess"}, {"bounds": [0, 1], "missing": "x"}, {"categories": "all"}])
def test_schemas_that_learn_are_checked(data, column, capsys):
    plain = {"tightdp_schema": 1, "label": "ill", "classes": ["no", "yes"], "columns": {"age": column}}
    data.with_name("s.json").write_text(json.dumps(plain))
    options = ["--schema", str(data.with_name("s.json")), "--epsilon", "1", "--delta", "1e-6"]
    assert main(["train", str(data), *options]) == 2
    assert "'age'" in capsys.readouterr().err


@pytest.mark.parametrize("public", [False, True])
def test_bounds_that_cannot_be_right_are_warned_of(tmp_path, public, capsys):
    """Of few ages bounds may be 49 and 51, and nothing was said. The number of records that is named suffices."""

    def learned(records, name):
        ages = np.random.default_rng(1).integers(18, 96, records)
        rows = "".join(f"{age},{'yes' if age > 50 else 'no'}\n" for age in ages)
        (tmp_path / f"{name}.csv").write_text("age,ill\n" + rows)
        asked = ["--label", "ill", "--learn-bounds", "age", "--classes", "no,yes", "--epsilon", "1", "--delta", "1e-6"]
        asked += ["--public-size", str(records)] if public else []
        assert main(["train", str(tmp_path / f"{name}.csv"), *asked, "--seed", "1"]) == 0
        model = dp.load(tmp_path / f"{name}.model.json")
        return model.columns[0], capsys.readouterr().err, model.statement

    narrow, said, statement = learned(600, "few")
    assert "bounds of age cannot be right: they are learned from about 600 records" in said
    assert "not to be published" in said and narrow.high - narrow.low < 77
    about = (
        f"; these cannot be right: they are learned from about {statement.size:,} records, and with this noise it takes"
    )
    assert about in statement.released[0]  # by a public number, which stands in the statement as well
    enough = int(said.partition("it takes ")[2].partition(". ")[0].replace(",", ""))
    wide, said, statement = learned(round(1.2 * enough), "many")
    assert "cannot be right" not in said + "".join(statement.released) and wide.low <= 30 and wide.high >= 84


def test_doubtful_bounds_are_told_before_anything_is_spent(data, tmp_path, capsys):
    """The ledger refuses the run, so nothing is learned, and yet the warning is there; a dry run gives it as well."""
    dp.Ledger.create(tmp_path / "l", epsilon=0.1, delta=1e-5, dataset="people", failure=1e-6)
    asked = ["train", str(data), *ASKED[:6], *LEARN, "--fill", "age=40", "--epsilon", ".5", "--delta", "1e-6"]
    for more in ([], ["--dry-run"]):
        assert main([*asked, "--ledger", str(tmp_path / "l"), *more]) == 3
        assert "bounds of age cannot be right: they are learned from about 3,000 records" in capsys.readouterr().err
    assert not data.with_suffix(".model.json").exists()


def test_a_dry_run_charges_for_learned_labels_what_the_run_does(data, capsys):
    asked = ["train", str(data), "--label", "ill", "--learn-classes", *LEARN, "--fill", "age=40", *ASKED[4:]]
    assert main([*asked, "--dry-run", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert main(asked) == 0
    assert said["charged"] == repr(dp.load(data.with_suffix(".model.json")).statement.charged)
    capsys.readouterr()
