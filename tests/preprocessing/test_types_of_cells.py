"""A cell is read by itself: what one record holds changes nothing of what the others are taken for."""

import numpy as np
import pytest

import tightdp as dp
from tightdp.metrics import accuracy, confusion_matrix
from tightdp.model_selection import PrivateSearchCV
from tightdp.pipeline import PrivatePipeline
from tightdp.preprocessing import Chain, ColumnTransformer, MinMaxScaler, OneHotEncoder
from tightdp.records.record_cells import (
    as_column_of_cells,
    as_labels_of_record_cells,
    as_table_of_record_cells,
    as_targets_of_record_cells,
    convert_cells_to_text,
    match_record_cells,
)
from tightdp.train import LogisticRegression

HOSTILE = ["x", "1", None, float("nan"), float("inf"), 2**53 + 1, 10**400, "y" * 10**5, 1.5, True, np.float32(0.1)]


@pytest.mark.parametrize("cell", HOSTILE, ids=[str(i) for i in range(len(HOSTILE))])
@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("side", [0, 1])
def test_one_label_of_another_type_moves_a_count_by_one(cell, kind, side):
    """Of 900 right predictions of 1,000 all others stay right, whatever the last one is."""
    labels = [[1] * 900 + [0] * 100, [1] * 1000]
    before = accuracy(*labels, delta=1e-6, noise_multiplier=1e-3)
    given = [[*labels[0], cell], [*labels[1], "something else"]][:: 1 if side else -1]
    after = accuracy(*map(kind, given), delta=1e-6, noise_multiplier=1e-3)
    assert before.value == 0.9 and after.value == pytest.approx(900 / 1001, abs=1e-15)
    matrix = confusion_matrix(*map(kind, given), classes=[0, 1], delta=1e-6, noise_multiplier=1e-3).matrix
    assert sorted(matrix.ravel().tolist()) == [0, 0, 100, 900]


def test_labels_are_equal_as_they_are_in_python_and_texts_are_no_numbers():
    one, other = (
        as_column_of_cells([1, 1.0, True, "1", None, 2**53 + 1]),
        as_column_of_cells([1.0, 1, 1, 1, None, float(2**53)]),
    )
    assert match_record_cells(one, other).tolist() == [True, True, True, False, True, False]
    assert match_record_cells(np.array([1, 0]), np.array([1.0, 0.5])).tolist() == [True, False]
    assert match_record_cells(np.array(["1", "a"]), as_column_of_cells([1, "a"])).tolist() == [False, True]


def test_metrics_refuse_what_is_no_column():
    for labels in (3, "ab", iter([1, 0])):
        with pytest.raises(TypeError, match="y_true must be a sequence of labels"):
            accuracy(labels, [1, 0], delta=1e-6, noise_multiplier=1.0)
    with pytest.raises(ValueError, match="must have shape"):
        accuracy([1, [0]], [1, 0], delta=1e-6, noise_multiplier=1.0)


def test_a_matrix_of_classes_that_no_record_has_costs_nothing(tmp_path):
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=1.0, delta=1e-6, dataset="test")
    with pytest.raises(ValueError, match="classes must be labels of the records"):
        confusion_matrix(["no"] * 9, ["no"] * 9, classes=["No", "Yes"], epsilon=0.5, delta=1e-6, ledger=ledger)
    assert not ledger.history


def test_lists_of_labels_have_one_kind_or_are_refused():
    assert as_labels_of_record_cells([1, np.int8(2)]).dtype == np.int64
    assert as_labels_of_record_cells([True, np.bool_(False)]).dtype == np.bool_
    assert as_targets_of_record_cells([0.5, np.float32(0.1)]).tolist() == [0.5, float(np.float32(0.1))]
    for cells in ([1, "1"], [1, True], [1, 1.0], [1, 2**63], [1, None], [1, [1]]):
        assert as_targets_of_record_cells(cells).tolist() == cells and as_targets_of_record_cells(cells).dtype == object
        with pytest.raises(TypeError, match="y must hold labels of one type"):
            LogisticRegression(epsilon=1.0, delta=1e-6).fit(np.zeros((2, 1)), cells)


def test_tables_keep_the_types_of_cells():
    assert [type(cell) for cell in as_table_of_record_cells([[1, "a"], [2.5, None]]).ravel()] == [
        int,
        str,
        float,
        type(None),
    ]
    assert convert_cells_to_text(as_column_of_cells([1, "a ", 1.0, None, float("nan")])) == ["1", "a", "1", "", ""]
    with pytest.raises(ValueError, match="fewer digits"):
        convert_cells_to_text([10**5000])


@pytest.mark.parametrize("table", ["rows", "columns"])
def test_one_cell_of_another_type_leaves_the_features_of_others_as_they_are(table):
    """A flag that is the label, as 0.0 and 1.0: "1" is a category and "1.0", of NumPy's texts, would be none."""
    labels = np.arange(3000) % 2
    numbers, text = ([0], [1]) if table == "rows" else (["a"], ["b"])
    parts = [("n", MinMaxScaler(bounds=(0, 1)), numbers), ("t", OneHotEncoder(categories=[["0", "1"]]), text)]
    model = PrivatePipeline([("columns", ColumnTransformer(parts)), ("model", LogisticRegression(classes=[0, 1]))])
    for last in (1.0, "a text"):
        flags = [*map(float, labels[:-1]), last]
        X = [[0.5, flag] for flag in flags] if table == "rows" else {"a": [0.5] * 3000, "b": flags}
        found = PrivateSearchCV(model, {"model__regularization": [1e-3]}, 8.0, 1e-6, mean=1.0, random_state=1)
        assert found.fit(X, labels).best_score_ > 0.9


def test_types_that_decide_a_spelling_are_stated_as_assumed():
    """A column of zip codes is one of numbers, or of texts where one record's is none: that is pandas' choice."""
    pandas = pytest.importorskip("pandas")
    codes = [1234] * 500 + [2345] * 500
    settings = {"epsilon": 1.0, "delta": 1e-6, "random_state": 1}
    numbers, texts = pandas.DataFrame({"zip": codes}), pandas.DataFrame({"zip": [f"0{c}" for c in codes] + ["K1A"]})
    for X, spelled, kind in ((numbers, "1234", "zip: int64"), (texts, "01234", "zip: text")):
        chain = Chain([("t", OneHotEncoder()), ("scale", MinMaxScaler(bounds=(0, 1)))], **settings)
        for made in (
            OneHotEncoder(**settings),
            ColumnTransformer([("t", OneHotEncoder(), ["zip"])], **settings),
            chain,
        ):
            stated = made.fit(X).statement_
            assert "types of the columns" in stated.taken and kind in stated.public["types of the columns"]
            assert any(spelled in line for line in stated.released) and "K1A" not in str(stated)
    declared = OneHotEncoder(categories=[["1234"]]).fit(numbers).statement_
    assert not declared.taken
    y = pandas.Series(codes)
    learned = LogisticRegression(classes="learn", **settings).fit(np.zeros((1000, 1)), y).statement_
    assert learned.public["type of the labels"] == "assumed, as y brings it: int64"
