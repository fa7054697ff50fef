"""tightdp schema drafts what is to be declared, and train takes it once it was reviewed."""

import json
import os

import numpy as np
import pytest
from edits import is_same, list_edits, list_texts

import tightdp as dp
from tightdp.cli import main
from tightdp.records.schema import Schema

LINES = ["age,clinic,name,income"]
LINES += [f"{20 + k % 60},{'north' if k % 3 else 'south'},p{k},{'ab'[k % 2]}" for k in range(90)]
REVIEWED = {
    "tightdp_schema": 1,
    "label": "income",
    "classes": ["a", "b"],
    "columns": {
        "age": {"bounds": [0, 120]},
        "clinic": {"categories": ["north", "south", "east"]},
        "name": {"drop": True},
    },
}


@pytest.fixture
def data(tmp_path):
    file = tmp_path / "people.csv"
    file.write_text("\n".join(LINES) + "\n")
    return file


def train(data, schema, *options):
    path = data.with_name("reviewed.json")
    path.write_text(schema if isinstance(schema, str) else json.dumps(schema))
    return main(["train", str(data), "--schema", str(path), "--epsilon", "1", "--delta", "1e-5", *options])


def test_a_draft_is_refused_until_it_is_reviewed(data, capsys):
    assert main(["schema", str(data), "--label", "income"]) == 0
    assert "NOT PRIVATE" in capsys.readouterr().err
    assert data.with_name("people.schema.json").stat().st_mode & 0o077 == 0
    draft = json.loads(data.with_name("people.schema.json").read_text())
    assert draft.pop("draft").startswith("NOT PRIVATE")
    lines = data.with_name("people.schema.json").read_text().splitlines()
    assert '  "clinic": {"categories": ["north", "south"]},' in lines  # a line for each column
    assert draft == {
        "tightdp_schema": 1,
        "label": "income",
        "classes": ["a", "b"],
        "columns": {
            "age": {"bounds": [20, 79]},
            "clinic": {"categories": ["north", "south"]},
            "name": {"drop": True},
        },
    }
    assert train(data, data.with_name("people.schema.json").read_text()) == 2
    assert "is a draft that nobody has reviewed" in capsys.readouterr().err
    assert not data.with_suffix(".model.json").exists()
    assert train(data, draft) == 0
    assert main(["schema", str(data), "--label", "income"]) == 2
    assert "exists already" in capsys.readouterr().err


def test_a_schema_declares_everything(data, capsys):
    assert train(data, REVIEWED, "--seed", "1", "--public-size", "90") == 0
    with_schema = dp.load(data.with_suffix(".model.json"))
    options = [
        "--label",
        "income",
        "--classes",
        "a,b",
        "--categories",
        "clinic=north,south,east",
        "--bounds",
        "age=0:120",
    ]
    options += ["--drop", "name", "--epsilon", "1", "--delta", "1e-5", "--seed", "1", "--public-size", "90", "--force"]
    assert main(["train", str(data), *options]) == 0
    assert dp.load(data.with_suffix(".model.json")).to_dict() == with_schema.to_dict()
    assert with_schema.features == ["age", "clinic=north", "clinic=south", "clinic=east"]
    capsys.readouterr()


def changed(**entries):
    return {key: value for key, value in {**REVIEWED, **entries}.items() if value is not None}


@pytest.mark.parametrize(
    ("schema", "lines"),
    [
        ("", ["reviewed.json: "]),
        ("[]", ["must be what `tightdp schema` of format 1 wrote"]),
        (changed(tightdp_schema=2), ["of format 1 wrote, and its tightdp_schema is 2"]),
        (changed(label=None), ["has fewer: label"]),
        (changed(missing=[]), ["missing must be 1 to 1,000 different texts"]),
        (changed(missing=["-999 "]), ["missing must be texts without blanks around them"]),
        (changed(missing="learn"), ["missing must be a list, got 'learn'"]),
        (changed(columns=[]), ["columns must be an object, got []"]),
        (changed(clases=["a"]), ["has more: clases"]),
        (changed(classes=["a"]), ["classes must be 2 to 1,000 different texts"]),
        (changed(classes=["a", "a"]), ["classes must be 2 to 1,000 different texts"]),
        (changed(classes="ab"), ["classes must be a list or 'learn', got 'ab'"]),
        (changed(classes=[str(k) for k in range(1001)]), ["classes must be 2 to 1,000 different texts"]),
        (
            changed(
                columns={
                    "age": {"bounds": [3, 3]},
                    "clinic": {"categories": []},
                    "name": {"drop": False},
                    "x": {"bounds": [1, 2], "drop": True},
                    "y": {"bounds": [9, 0]},
                    "z": {"bounds": [True, "2"]},
                }
            ),
            [
                "bounds of column 'age' must be low < high",
                "columns['clinic'].categories must be 1 to 1,000",
                "columns['name'].drop must be True, got False",
                "columns['x'] must be",
                "bounds of column 'y' must be low < high",
                "columns['z'].bounds[0] must be a number, got True",
            ],
        ),
        (changed(columns={"age": {"bounds": [0, 9]}}), ["'clinic' is not declared", "'name' is not declared"]),
        (changed(columns={**REVIEWED["columns"], "size": {"drop": True}}), ["no column 'size'"]),
        (changed(label="wage"), ["no column 'wage'"]),
    ],
)
def test_what_is_wrong_with_a_schema_is_said_all_at_once(data, schema, lines, capsys):
    assert train(data, schema) == 2
    err = capsys.readouterr().err
    assert [line for line in lines if line not in err] == [] and len(err.splitlines()) == 1, err
    assert not data.with_suffix(".model.json").exists()


@pytest.mark.parametrize(
    "options", [["--label", "x"], ["--classes", "a,b"], ["--bounds", "age=0:1"], ["--drop", "age"], ["--public-values"]]
)
def test_nothing_is_declared_twice(data, options, capsys):
    assert train(data, REVIEWED, *options) == 2
    assert f"{options[0]}: must be left out beside --schema" in capsys.readouterr().err


def test_a_number_for_missing_ones_has_its_place_in_the_schema(data, capsys):
    assert train(data, REVIEWED, "--fill", "age=40") == 2
    assert 'as the entry "missing" of its column' in capsys.readouterr().err


def test_the_draft_names_the_columns_that_it_drops(tmp_path, capsys):
    path = tmp_path / "visits.csv"
    days = [f"2024-01-{day:02}" for day in range(1, 29)]
    path.write_text("day,ill\n" + "".join(f"{day},{day[-1] < '5'}\n" for day in days * 2))
    assert main(["schema", str(path), "--label", "ill"]) == 0
    assert "too many different texts or none: day." in capsys.readouterr().err


def test_the_draft_replaces_nothing(data, capsys):
    assert main(["schema", str(data), "--label", "income", "--out", str(data)]) == 2
    assert main(["schema", str(data), "--label", "wage"]) == 2
    assert len(list(data.parent.iterdir())) == 1 and data.read_text().splitlines() == LINES
    capsys.readouterr()


def test_numbers_and_names_are_told_apart(tmp_path, capsys):
    g = np.random.default_rng(0)
    lines = ["x,constant,code,mostly missing,free text,y"]
    lines += [f"{g.normal()},3,{g.integers(5)},{'?' if k else '7'},word {k},{'ab'[k % 2]}" for k in range(50)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    assert main(["schema", str(tmp_path / "t.csv"), "--label", "y"]) == 0
    columns = json.loads((tmp_path / "t.schema.json").read_text())["columns"]
    assert columns["constant"] == {"bounds": [3, 4]}
    assert columns["mostly missing"] == {"bounds": [7, 8], "missing": 7}
    assert columns["free text"] == {"drop": True} and columns["code"] == {"bounds": [0, 4]}
    capsys.readouterr()


def drafted(tmp_path, lines, *options):
    file = tmp_path / "t.csv"
    file.write_text("\n".join(lines))
    assert main(["schema", str(file), "--label", "y", *options]) == 0
    return json.loads((tmp_path / "t.schema.json").read_text())


def test_a_draft_says_what_stands_for_missing_numbers(tmp_path, capsys):
    """So that whoever reviews it sees that there are some, and training goes through."""
    lines = ["x,y", *(f"{'N/A' if k % 4 == 0 else k % 4},{'ab'[k % 2]}" for k in range(60))]
    draft = drafted(tmp_path, lines)
    assert draft["columns"] == {"x": {"bounds": [1, 3], "missing": 2}}
    del draft["draft"]
    assert train(tmp_path / "t.csv", draft) == 0
    capsys.readouterr()


def test_leading_zeros_are_text(tmp_path, capsys):
    """A postal code is no number, and its distance from another one is nothing."""
    lines = ["zip,code,share,y"]
    lines += [f"{'01234' if k % 2 else '98101'},{k:05d},{('0', '0.5')[k % 2]},{'ab'[k % 2]}" for k in range(60)]
    assert drafted(tmp_path, lines)["columns"] == {
        "zip": {"categories": ["01234", "98101"]},
        "code": {"drop": True},
        "share": {"bounds": [0, 0.5]},
    }
    capsys.readouterr()


def test_a_mark_for_no_value_is_no_category(tmp_path, capsys):
    lines = ["clinic,y", *(f"{('north', 'NA', '?', '')[k % 4]},{('a', 'b', '?')[k % 3]}" for k in range(60))]
    draft = drafted(tmp_path, lines)
    assert draft["columns"] == {"clinic": {"categories": ["NA", "north"]}} and draft["classes"] == ["a", "b"]
    public = ["--label", "y", "--public-values", "--categorical", "clinic", "--epsilon", "1", "--delta", "1e-5"]
    assert main(["train", str(tmp_path / "t.csv"), *public]) == 0
    model = dp.load(tmp_path / "t.model.json")
    assert model.classes == ("a", "b") and model.features == ["clinic=NA", "clinic=north"]
    capsys.readouterr()


def test_a_draft_of_decimal_commas(tmp_path, capsys):
    lines = ["x;y", *(f"{k % 5},5;{'ab'[k % 2]}" for k in range(60))]
    draft = drafted(tmp_path, lines, "--delimiter", ";", "--decimal", ",")
    assert draft["columns"] == {"x": {"bounds": [0.5, 4.5]}}
    capsys.readouterr()


@pytest.mark.parametrize("learn", [[], ["--learn"]])
def test_a_marker_of_missing_cells_goes_with_the_schema(tmp_path, capsys, learn):
    """The draft had a number for missing ones, and training then took -999 for a number beside it."""
    lines = ["x,y", *(f"{-999 if k % 4 == 0 else k % 4},{'ab'[k % 2]}" for k in range(60))]
    draft = drafted(tmp_path, lines, "--missing=-999,?", *learn)
    assert draft["missing"] == ["-999"]
    if learn:
        draft |= {"columns": {"x": {"bounds": [1, 3], "missing": 2}}, "classes": ["a", "b"]}
    del draft["draft"]
    options = ["--seed", "1", "--public-size", "60"]
    assert train(tmp_path / "t.csv", draft, *options) == 0
    carried = dp.load(tmp_path / "t.model.json").to_dict()
    del draft["missing"]
    assert train(tmp_path / "t.csv", draft, *options, "--force") == 0
    assert dp.load(tmp_path / "t.model.json").to_dict()["coef"] != carried["coef"]  # -999 was clipped to 1
    assert train(tmp_path / "t.csv", draft, *options, "--force", "--missing=-999") == 0
    assert dp.load(tmp_path / "t.model.json").to_dict() == carried
    capsys.readouterr()


@pytest.mark.parametrize(
    ("cells", "label", "refused"),
    [
        (["1e308", "-1e308"], "ab", "'x'"),
        (["1e308", ""], "ab", "'x'"),  # one value, and the next larger bound is the value itself
        (["1", "2"], "a", "classes"),
        (["1e308", "-1e308"], "a", "classes, 'x'"),
        (["1e308", "1.1e308", ""], "ab", None),  # the mean of the two in the middle is finite
    ],
)
def test_a_draft_names_what_train_would_refuse(tmp_path, capsys, cells, label, refused):
    lines = ["x,y", *(f"{cells[k % len(cells)]},{label[k % len(label)]}" for k in range(60))]
    draft = drafted(tmp_path, lines)
    words = f"Refused by tightdp train until you correct them: {refused}."
    assert (words in capsys.readouterr().err) == (refused is not None) == ("Refused" in draft["draft"])
    del draft["draft"]
    assert train(tmp_path / "t.csv", draft) == (0 if refused is None else 2)
    capsys.readouterr()


FILE = changed(
    missing=["-999", "none given"],
    columns={
        **REVIEWED["columns"],
        "weight": {"bounds": [40.5, 200], "missing": 70},
        "height": {"bounds": "learn", "missing": "learn"},
        "street": {"categories": "learn"},
    },
)


def as_written(schema):
    """What a schema file says, from what was read of it."""
    columns = {name: {"bounds": bounds} for name, bounds in schema.bounds.items()}
    columns |= {name: {"categories": values} for name, values in schema.categories.items()}
    columns |= {name: {"drop": True} for name in schema.dropped}
    for name, fill in schema.fills.items():
        columns[name]["missing"] = fill
    missing = {"missing": schema.missing} if schema.missing else {}
    return {"tightdp_schema": 1, "label": schema.label, "classes": schema.classes, **missing, "columns": columns}


def test_a_schema_is_read_as_it_was_written(tmp_path):
    """Whatever is edited of a schema: it says what is read of it, or is refused in one line that names the file."""
    path = tmp_path / "reviewed.json"
    path.write_text(json.dumps(FILE))
    assert is_same(as_written(Schema.read(path)), FILE)
    refused = 0
    for edit in list_edits(FILE):
        path.write_text(json.dumps(edit.plain))
        try:
            found = Schema.read(path)
        except ValueError as error:
            message = str(error)
            assert message.startswith(f"{path}: ") and edit.entry in message, (edit, message)
            assert len(message) < 1000 and message.isprintable()
            refused += 1
        else:
            assert is_same(as_written(found), edit.plain), edit
    assert refused > 200


@pytest.mark.parametrize(("text", "words"), list_texts(FILE))
def test_what_is_no_schema_is_refused_before_it_is_parsed(tmp_path, text, words):
    (tmp_path / "s.json").write_bytes(text)
    with pytest.raises(ValueError, match=words) as seen:
        Schema.read(tmp_path / "s.json")
    assert str(tmp_path) in str(seen.value) and len(str(seen.value)) < 500


def test_a_schema_is_a_file_of_ordinary_length(tmp_path):
    """A pipe or a device without end would be read for ever."""
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "long").open("wb") as file:
        file.truncate(2**40)
    for path, words in ((tmp_path / "pipe", "must be a file"), (tmp_path / "long", "must have at most")):
        with pytest.raises(ValueError, match=words):
            Schema.read(path)
