"""tightdp.load, predict, and models as files."""

import csv
import hashlib
import io
import json
from dataclasses import replace

import numpy as np
import pytest

import tightdp as dp
from tightdp.cli import main
from tightdp.statement.column_words import state_fact_of_categories, state_fact_of_column_bounds, state_fact_of_labels

RUN = dp.Gaussian(5.0) * 1
STATED = dp.Statement("a model", RUN.epsilon(1e-6), 1e-6, RUN)
COLUMNS = [
    {"kind": "number", "name": "age", "low": 20.0, "high": 60.0},
    {"kind": "category", "name": "clinic", "categories": ["north", "south"]},
]
FACTS = [state_fact_of_column_bounds("age", 20.0, 60.0), state_fact_of_categories("clinic", ("north", "south"))]
PLAIN = {
    "tightdp_model": 1,
    "model": "logistic",
    "label": "income",
    "classes": ["low", "high"],
    "columns": COLUMNS,
    "features": ["age", "clinic=north", "clinic=south"],
    "coef": [[4.0, -1.0, 1.0]],
    "intercept": [-2.0],
    "statement": STATED.to_dict(),
}
TABLE = {"clinic": ["north", "south", "east", "north"], "age": [20, "60", 40.0, 1e9], "name": ["a", "b", "c", "d"]}


def complete(plain):
    """Returns the model with what its statement must say of it: each label and column, and the parameters' hash."""
    text = json.dumps({k: v for k, v in plain.items() if k != "statement"}, sort_keys=True, separators=(",", ":"))
    found = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    facts = {fact.name: fact.declared_text for fact in [state_fact_of_labels(plain["classes"]), *FACTS]}
    return {
        **plain,
        "statement": {**plain["statement"], "public": facts, "parameters": found} if plain["statement"] else {},
    }


PLAIN = complete(PLAIN)


def saved(folder, **changes):
    path = folder / "m.json"
    path.write_text(json.dumps(complete({**PLAIN, **changes})))
    return path


def test_the_scores_are_those_of_the_features(tmp_path):
    model = dp.load(saved(tmp_path))
    X = np.array([[0, 1, 0], [1, 0, 1], [0.5, 0, 0], [1, 1, 0]])  # clipped to its bounds, and no category of its own
    np.testing.assert_array_equal(model.encode(TABLE), X)
    z = X @ [4, -1, 1] - 2
    np.testing.assert_allclose(model.decision_function(TABLE), z, rtol=1e-15)
    np.testing.assert_allclose(model.predict_proba(TABLE)[:, 1], 1 / (1 + np.exp(-z)), rtol=1e-13)
    assert model.predict(TABLE).tolist() == ["low", "high", "low", "high"]
    assert replace(model.statement, parameters=None, public={}) == STATED


def test_it_is_saved_as_it_was_read(tmp_path):
    first = dp.load(saved(tmp_path))
    first.save(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text()) == PLAIN
    assert dp.load(tmp_path / "again.json").to_dict() == first.to_dict() == PLAIN


MANY = {"classes": ["a", "b", "c"], "coef": np.arange(9.0).reshape(3, 3).tolist(), "intercept": [3.0, 0.0, -4.0]}


@pytest.mark.parametrize("changes", [{}, MANY, {"model": "svm"}, {**MANY, "model": "svm"}])
def test_scikit_learn_says_the_same(tmp_path, changes):
    pytest.importorskip("sklearn")
    model = dp.load(saved(tmp_path, **changes))
    theirs, X = model.to_sklearn(), model.encode(TABLE)
    assert theirs.predict(X).tolist() == model.predict(TABLE).tolist()
    np.testing.assert_allclose(theirs.decision_function(X), model.decision_function(TABLE), rtol=1e-12)
    if model.model == "logistic":
        np.testing.assert_allclose(theirs.predict_proba(X), model.predict_proba(TABLE), rtol=1e-12)
    else:
        with pytest.raises(ValueError, match=r"^model must be 'logistic'"):
            model.predict_proba(TABLE)


@pytest.mark.parametrize("changes", [{}, MANY, {"model": "svm"}, {**MANY, "model": "svm", "classes": ["é", "b", "c"]}])
def test_onnx_says_the_same(tmp_path, changes):
    reference = pytest.importorskip("onnx.reference", reason="the extra onnx is not installed")
    model = dp.load(saved(tmp_path, **changes))
    graph = model.to_onnx()
    names = [output.name for output in graph.graph.output]
    assert names == (["label", "probabilities"] if model.model == "logistic" else ["label"])
    X = np.vstack([model.encode(TABLE), np.random.default_rng(0).random((50, 3))])
    label, *probabilities = reference.ReferenceEvaluator(graph.SerializeToString()).run(None, {"features": X})
    theirs = model.to_sklearn()
    assert [str(each) for each in label] == theirs.predict(X).tolist()
    for each in probabilities:
        np.testing.assert_allclose(each, theirs.predict_proba(X), rtol=1e-12)


def said(capsys):
    return list(csv.reader(io.StringIO(capsys.readouterr().out)))


def test_predict_writes_a_line_for_each_record(tmp_path, capsys):
    new = tmp_path / "new.csv"
    new.write_text("clinic;name;age\nnorth;a;20\nsouth;b;60\neast;c;?\n")
    path = str(saved(tmp_path))
    assert main(["predict", path, str(new), "--delimiter", ";"]) == 2
    assert "record 3 has no age; see --allow-missing" in capsys.readouterr().err
    options = ["--delimiter", ";", "--allow-missing"]
    assert main(["predict", path, str(new), *options]) == 0
    assert said(capsys) == [["income"], ["low"], ["high"], [""]]
    assert main(["predict", path, str(new), *options, "--probabilities"]) == 0
    header, *lines = said(capsys)
    assert header == ["income", "income=low", "income=high"] and lines[2] == ["", "", ""]
    for (_, low, high), z in zip(lines[:2], (-3, 3), strict=True):
        assert float(high) == pytest.approx(1 / (1 + np.exp(-z)), rel=1e-14) == 1 - float(low)
    out = tmp_path / "said.csv"
    assert main(["predict", path, str(new), *options, "--out", str(out)]) == 0
    assert out.read_text() == 'income\nlow\nhigh\n""\n' and not capsys.readouterr().out


def test_what_train_writes_is_loaded(tmp_path, capsys):
    g = np.random.default_rng(0)
    age = g.integers(20, 60, 1000)
    label = np.where(age > 40, "old", "young")
    data = tmp_path / "people.csv"
    data.write_text("age,who\n" + "".join(f"{a},{y}\n" for a, y in zip(age, label, strict=True)))
    train = ["train", str(data), "--label", "who", "--classes", "young,old", "--bounds", "age=20:60"]
    assert main([*train, "--epsilon", "2", "--delta", "1e-6", "--test", str(data), "--json"]) == 0
    accuracy = json.loads(capsys.readouterr().out)["test_accuracy_not_private"]
    model = dp.load(tmp_path / "people.model.json")
    assert np.mean(model.predict({"age": age}) == label) == pytest.approx(accuracy, abs=1e-6) and accuracy > 0.8
    assert main(["statement", str(tmp_path / "people.model.json"), "--out", str(tmp_path / "page.html")]) == 0
    assert capsys.readouterr().out == f"{model.statement}\n"
    assert (tmp_path / "page.html").read_text() == model.statement.to_html()
    assert main(["statement", str(tmp_path / "people.model.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == model.statement.to_dict()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tightdp_model": 2}, "TableModel.save of format 1 wrote, and its tightdp_model is 2"),
        ({"model": "forest"}, "model must be one of"),
        ({"classes": ["low"]}, "classes must be two or more"),
        ({"classes": ["low", "low"]}, "classes must be two or more"),
        ({"coef": [[1.0, 2.0]]}, r"coef must have shape \(1, 3\)"),
        ({"intercept": [1.0, 2.0]}, r"intercept \(1,\)"),
        ({"coef": [[1.0, 2.0, float("nan")]]}, "NaN is no number of JSON"),
        ({"coef": [[1e308, -1e308, 1e308]]}, r"must be finite, in \[-1e\+300, 1e\+300\]"),
        ({"intercept": [-1.1e300]}, r"must be finite, in \[-1e\+300, 1e\+300\]"),
        ({"coef": "many"}, "coef must be a list"),
        ({"coef": [[1.0, 2.0], [3.0]]}, "coef must have rows of one length"),
        ({"coef": [[1.0, True, 2.0]]}, r"coef\[0\]\[1\] must be a number"),
        ({"features": ["age"]}, "parameters must be those that the statement is about"),
        ({"columns": [{"kind": "date", "name": "age"}]}, r"columns\[0\] must be an object of kind"),
        (
            {"columns": [{**COLUMNS[0], "high": 20.0}, COLUMNS[1]]},
            "bounds of column 'age' must be low < high",
        ),
        ({"columns": [{**COLUMNS[0], "low": -1.7e308, "high": 1.7e308}, COLUMNS[1]]}, "'age' must have a finite width"),
        ({"columns": [{**COLUMNS[0], "high": "x"}, COLUMNS[1]]}, r"columns\[0\].high must be a number"),
        ({"statement": {}}, "text must be what Statement.to_json"),
    ],
)
def test_what_is_no_model(tmp_path, changes, message):
    path = saved(tmp_path, **changes)
    with pytest.raises((ValueError, TypeError), match=message) as seen:
        dp.load(path)
    assert str(seen.value).startswith(str(path))
    lacking = {k: v for k, v in PLAIN.items() if k not in changes}
    path.write_text(json.dumps(lacking))
    with pytest.raises(ValueError, match=r"must be what TableModel.save|has fewer"):
        dp.load(path)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("changes", [{}, MANY])
def test_the_largest_coefficients_give_finite_scores_quietly(tmp_path, changes):
    plain = {**PLAIN, **changes}
    largest = {name: (np.sign(plain[name]) * 1e300).tolist() for name in ("coef", "intercept")}
    model = dp.load(saved(tmp_path, **{**changes, **largest}))
    assert np.isfinite(model.decision_function(TABLE)).all()
    np.testing.assert_array_equal(model.predict_proba(TABLE).sum(axis=1), 1.0)


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "text",
    [DEEP, '{"a":' * 100_000, json.dumps(PLAIN).replace("[[4.0", DEEP + "4.0")],
    ids=["lists", "objects", "coefficients"],
)
def test_deep_nesting_is_no_model_and_no_schema(tmp_path, text, capsys):
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"m\.json: its values are nested too deeply"):
        dp.load(path)
    assert main(["predict", str(path), str(path)]) == main(["statement", str(path)]) == 2
    assert main(["train", str(path), "--schema", str(path), "--epsilon", "1", "--delta", "1e-6"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 3 and all("nested too deeply" in line and len(line) < 500 for line in errors)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '"x"', "{}", "\ud800"])
def test_what_is_no_json(tmp_path, text):
    path = tmp_path / "m.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ValueError, match=r"m\.json"):
        dp.load(path)
    with pytest.raises(OSError):
        dp.load(tmp_path / "nowhere.json")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["predict", "m.json", "nowhere.csv"], "nowhere.csv"),
        (["predict", "nowhere.json", "m.json"], "nowhere.json"),
        (["predict", "m.json", "other.csv"], "table must have the columns age, clinic"),
        (["predict", "m.json", "new.csv", "--out", "new.csv"], "must not be a file that the command reads"),
        (["predict", "m.json", "new.csv", "--out", "m.json"], "must not be a file"),
        (["statement", "m.json", "--out", "m.json"], "must not be a file"),
        (["statement", "new.csv"], "new.csv: "),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, arguments, line, capsys):
    monkeypatch.chdir(tmp_path)
    saved(tmp_path)
    (tmp_path / "new.csv").write_text("age,clinic\n30,north\n")
    (tmp_path / "other.csv").write_text("x,y\n1,2\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert line in err and len(err.splitlines()) == 1
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
