"""Linear models of a table's columns, and the files that hold such models (docs/reference/model-format.md)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._support import _check
from .._support.strict_json import (
    check_json_entries,
    check_json_format,
    check_same_json,
    construct_from_strict_json,
    read_json_object,
    read_json_value,
    read_strict_json_file,
)
from ..models.linear import compute_model_class_probabilities
from ..records.column_encodings import CategoryColumn, Column, NumberColumn, encode_record_columns
from ..records.sources.rows import Rows
from ..statement import Statement
from ..statement.column_words import OCCURRING, StatedColumnFact, state_fact_of_labels, state_facts_of_columns

FORMAT = 1
MODELS = ("logistic", "svm", "ridge")
REGRESSION = "ridge"
"""The kind of model that predicts numbers and has no classes."""
LARGEST = 1e300
"""Largest magnitude of a coefficient. Features are in [0, 1], so scores are finite for up to 10^8 features."""


@dataclass(frozen=True, eq=False)
class TableModel:
    """A linear model whose features are made of a table's columns. ``tightdp.load`` reads such a model from a file.

    A table is a mapping from the names of columns to sequences of cells, such as a dict or a data frame of pandas. The
    cells are texts or numbers. Columns that the model does not use are ignored. Numbers are clipped to the model's
    bounds. A text that is not a category of its column makes all features of this column 0.

    Parameters
    ----------
    model : the kind of model, "logistic", "svm" or "ridge".
    label : the name of the predicted column.
    classes : two or more labels; none for "ridge".
    columns : the columns of the features.
    coef, intercept : finite weights and constants, in [-1e300, 1e300].
    statement : the ``Statement``, which must name the labels and the bounds or categories of each column.

    Raises ValueError if an argument does not fit the other arguments. The error names this argument. ``tightdp train``
    makes the model:

    >>> import numpy as np
    >>> from tightdp.records.column_encodings import NumberColumn
    >>> run = dp.Gaussian(5.0) * 1
    >>> public = {"labels": "declared: no, yes", "bounds of age": "declared: 18 to 90"}
    >>> statement = dp.Statement("a model of ages", run.epsilon(1e-6), 1e-6, run, public=public)
    >>> age = NumberColumn("age", 18.0, 90.0)
    >>> weights = np.array([[8.0]]), np.array([-6.0])
    >>> model = dp.TableModel("logistic", "retired", ("no", "yes"), (age,), *weights, statement)
    >>> model.predict({"age": [30, 80]}).tolist(), model.predict_proba({"age": [72]}).tolist()
    (['no', 'yes'], [[0.5, 0.5]])
    >>> dp.TableModel.from_dict(model.to_dict()).encode({"age": [30, 90]}).tolist()
    [[0.16666666666666666], [1.0]]
    """

    model: str
    """The kind of model: "logistic", "svm", or "ridge" for a regression."""
    label: str
    """The name of the column that the model predicts."""
    classes: tuple[str, ...]
    """The labels, in the order of the probabilities. A regression has none."""
    columns: tuple[Column, ...]
    coef: NDArray[np.float64]
    """Weights of the features that ``encode`` makes. The shape is (1, features) for a regression or two classes, and
    (classes, features) for more."""
    intercept: NDArray[np.float64]
    """Constants of the scores, shape (1,) or (classes,)."""
    statement: Statement
    """The privacy statement. Its entry ``parameters`` is set to the hash of the model's parameters."""

    def __post_init__(self) -> None:
        _check.check_choice_argument("model", self.model, MODELS)
        if self.model == REGRESSION and self.classes:
            raise ValueError("classes must be none for a regression, which predicts numbers")
        if self.model != REGRESSION and (len(self.classes) < 2 or len(set(self.classes)) < len(self.classes)):
            raise ValueError("classes must be two or more different labels")
        outputs = 1 if len(self.classes) <= 2 else len(self.classes)
        shape = outputs, len(self.features)
        if self.coef.shape != shape or self.intercept.shape != (outputs,):
            raise ValueError(f"coef must have shape {shape} and intercept ({outputs},), got {self.coef.shape} and "
                             f"{self.intercept.shape}")  # fmt: skip
        if not all((np.abs(weights) <= LARGEST).all() for weights in (self.coef, self.intercept)):
            raise ValueError(f"coef and intercept must be finite, in [-{LARGEST:g}, {LARGEST:g}]")
        labels = [] if self.model == REGRESSION else [state_fact_of_labels(self.classes)]
        _check_facts_of_table_model(self.statement, [*labels, *state_facts_of_columns(self.columns)])
        hashed = self.parameters_hash
        if self.statement.parameters not in (None, hashed):
            raise ValueError(
                f"parameters must be those that the statement is about, {self.statement.parameters}, and their hash is "
                f"{hashed}: one of them was changed"
            )
        object.__setattr__(self, "statement", replace(self.statement, parameters=hashed))

    @property
    def features(self) -> list[str]:
        """The names of the features. A column of numbers gives its own name, and a category gives column=category."""
        return [name for column in self.columns for name in column.feature_names]

    def encode(self, table: Any, *, allow_missing: bool = False) -> NDArray[np.float64]:
        """Returns the features of a table, shape (n, d), in [0, 1].

        Raises ValueError for a missing column and for text where a number is expected. A column may declare a number
        that replaces missing numbers. Without such a number, a missing number becomes NaN if ``allow_missing``, and
        otherwise raises ValueError.
        """
        rows = Rows.from_source_table(table, [column.name for column in self.columns])
        return encode_record_columns(rows, self.columns, allow_missing=allow_missing)

    def decision_function(self, table: Any) -> NDArray[np.float64]:
        """Returns scores. With two classes the shape is (n,), and a positive score stands for the second class.

        With more classes the shape is (n, classes). The scores of a regression are its predictions, shape (n,).

        ``table`` is as for ``encode``, whose errors this method raises.
        """
        return self._compute_scores(self.encode(table))

    def predict(self, table: Any) -> NDArray[Any]:
        """Returns the likeliest label of each record, as text, or the number that a regression predicts.

        ``table`` is as for ``encode``, whose errors this method raises.
        """
        return self._choose_model_file_labels(self.decision_function(table))

    def predict_proba(self, table: Any) -> NDArray[np.float64]:
        """Returns probabilities, shape (n, classes). Raises ValueError unless the model is logistic."""
        return self._compute_probabilities(self.decision_function(table))

    def rows(self, table: Any, *, allow_missing: bool = False, probabilities: bool = False) -> list[list[str]]:
        """Returns a row of texts for each record: its predicted label, and with ``probabilities`` each class's
        probability.

        With ``allow_missing``, the texts of a record with a missing number are empty.

        ``table`` is as for ``encode``, whose errors this method raises.
        """
        features = self.encode(table, allow_missing=allow_missing)
        whole = np.asarray(np.isfinite(features).all(axis=1))
        scores = self._compute_scores(np.where(whole[:, None], features, 0.0))
        labels = [str(said) for said in self._choose_model_file_labels(scores).tolist()]
        shares = self._compute_probabilities(scores).tolist() if probabilities else [[]] * len(labels)
        cells = ([label, *map(repr, share)] for label, share in zip(labels, shares, strict=True))
        return [row if known else [""] * len(row) for row, known in zip(cells, whole, strict=True)]

    def _compute_scores(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        z: NDArray[np.float64] = features @ self.coef.T + self.intercept
        return z[:, 0] if z.shape[1] == 1 else z

    def _choose_model_file_labels(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        if self.model == REGRESSION:
            return scores
        places = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(np.array(self.classes)[places])

    def _compute_probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.model != "logistic":
            raise ValueError(f"model must be 'logistic' to have probabilities, got {self.model!r}")
        return np.asarray(compute_model_class_probabilities(scores), dtype=np.float64)

    def to_sklearn(self) -> Any:
        """Returns scikit-learn's ``LogisticRegression``, ``LinearSVC`` or ``Ridge`` with the weights of this model.

        The returned model takes the features that ``encode`` returns.
        """
        from sklearn import linear_model, svm

        if self.model == REGRESSION:
            made = linear_model.Ridge()
            made.coef_, made.intercept_, made.n_features_in_ = (
                self.coef[0].copy(),
                self.intercept[0],
                len(self.features),
            )
            return made
        made = linear_model.LogisticRegression() if self.model == "logistic" else svm.LinearSVC()
        made.classes_, made.coef_, made.intercept_ = np.array(self.classes), self.coef.copy(), self.intercept.copy()
        made.n_features_in_ = len(self.features)
        return made

    def to_onnx(self) -> Any:
        """Returns the model as an ``onnx.ModelProto``. The method needs the extra ``onnx``.

        The graph's input "features" (n, d) are the doubles that ``encode`` returns. Its output "label" (n,) is text. A
        logistic model has the output "probabilities" (n, classes) as well. Raises ValueError for a regression, which
        has no graph.
        """
        if self.model == REGRESSION:
            raise ValueError(f"model must be a classifier to have a graph, got {self.model!r}")
        from .onnx import build_onnx_graph

        return build_onnx_graph(self)

    @property
    def parameters_hash(self) -> str:
        """SHA-256 of the JSON text of all entries of the file except the statement.

        In the text, names are sorted, blanks are left out, and numbers are written as Python writes them.
        """
        text = json.dumps(self._list_model_file_entries(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    def _list_model_file_entries(self) -> dict[str, Any]:
        """Returns the entries of the model's file, except the statement, as plain values."""
        return {
            "tightdp_model": FORMAT,
            "model": self.model,
            "label": self.label,
            "classes": list(self.classes),
            "columns": [_dump_model_file_column(column) for column in self.columns],
            "features": self.features,
            "coef": self.coef.tolist(),
            "intercept": self.intercept.tolist(),
        }

    def to_dict(self) -> dict[str, Any]:
        """Returns the model and its statement as plain values for JSON."""
        return {**self._list_model_file_entries(), "statement": self.statement.to_dict()}

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the model and its statement to a file.

        ``path`` is the path of the file, which is overwritten. Raises OSError if the file cannot be written.
        """
        Path(path).write_text(json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n", encoding="utf-8")

    @classmethod
    def from_dict(cls, plain: Any, *, patient: bool = False) -> TableModel:
        """Returns the model that ``to_dict`` wrote. Raises ValueError for anything else.

        The statement is checked as in ``Statement.from_json``. The hash in the statement must be the hash of the
        parameters.

        ``plain`` is the dictionary. A computation that may take more than two seconds is refused unless
        ``patient``.
        """
        check_json_format(plain, "tightdp_model", FORMAT, "TableModel.save")
        check_json_entries("text", plain, ("tightdp_model", "features", *_ENTRY_TYPES, "statement"))
        given = {
            name: read_json_value(hint, plain[name], name, _read_model_file_column)
            for name, hint in _ENTRY_TYPES.items()
        }
        try:
            statement = Statement.from_dict(plain["statement"], patient=patient)
        except ValueError as error:
            raise ValueError(f"statement: {error}") from None
        if statement.parameters is None:
            raise ValueError("statement must have the hash of the parameters, which was taken out of it")
        weights = {name: _convert_table_weights(name, given[name]) for name in ("coef", "intercept")}
        made = construct_from_strict_json(cls, {**given, **weights, "statement": statement}, "")
        written = made._list_model_file_entries()
        check_same_json({name: plain[name] for name in written}, written)
        return made


def _check_facts_of_table_model(statement: Statement, facts: Sequence[StatedColumnFact]) -> None:
    """Raises ValueError unless statement and model agree about the labels and about each column.

    The statement must name each of the model's ``facts``, as a public fact or as a fact that was learned with noise.
    """
    for fact in facts:
        name, shown = fact.name, _check.describe_argument(fact.value)
        said = statement.public.get(name)
        lines = [line for line in statement.released if fact.is_about(line)]
        if said is not None and said.startswith(f"{OCCURRING}: ") != (name in statement.taken):
            raise ValueError(f"taken must name {name!r} exactly where public says that those that occur are taken")
        if said not in (None, fact.declared_text, fact.occurring_text):
            raise ValueError(
                f"public must say of {name!r} what the model does, {shown}, got {_check.describe_argument(said)}"
            )
        for line in lines:
            if not fact.agrees_with(line):
                raise ValueError(
                    f"released must say of {name!r} what the model does, {shown}, got {_check.describe_argument(line)}"
                )
        if said is None and not lines:
            raise ValueError(f"statement must say how {name!r} is known: as a public fact, or as one that was learned")


_ENTRY_TYPES: Mapping[str, Any] = {
    "model": str,
    "label": str,
    "classes": tuple[str, ...],
    "columns": tuple[Column, ...],
    "coef": tuple[tuple[float, ...], ...],
    "intercept": tuple[float, ...],
}


def _convert_table_weights(name: str, rows: Any) -> NDArray[np.float64]:
    if len(set(map(len, rows)) if name == "coef" else ()) > 1:
        raise ValueError("coef must have rows of one length")
    return np.array(rows, dtype=np.float64)


def _dump_model_file_column(column: Column) -> dict[str, Any]:
    if isinstance(column, CategoryColumn):
        return {"kind": "category", "name": column.name, "categories": list(column.categories)}
    plain = {"kind": "number", **asdict(column)}
    if column.missing is None:
        del plain["missing"]
    return plain


def _read_model_file_column(hint: Any, plain: Any, name: str) -> Column:
    """Returns the column that ``_dump_model_file_column`` wrote."""
    kinds: dict[Any, Callable[..., Column]] = {"number": NumberColumn, "category": CategoryColumn}
    kind = plain.get("kind") if isinstance(plain, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise ValueError(f"{name} must be an object of kind number or category, got {_check.describe_argument(plain)}")
    given = {entry: value for entry, value in plain.items() if entry != "kind"}
    if kind == "number" and "missing" not in given:
        given["missing"] = None
    return read_json_object(kinds[kind], given, name)


def load(path: str | PathLike[str], *, patient: bool = False) -> TableModel:
    """Returns the model that ``tightdp train`` or ``TableModel.save`` wrote.

    Raises OSError or ValueError, which names the file, if the file cannot be read or holds no such model.

    The bound of the model's statement is computed again from the statement's account, and the parameters must have the
    hash that the statement names. A computation that may take more than two seconds is refused unless ``patient``.

    ``path`` is the path of the file.

    >>> import tightdp as dp
    >>> model = dp.load("people.model.json")  # doctest: +SKIP
    >>> model.predict({"age": [30, 70], "clinic": ["north", "south"]})  # doctest: +SKIP
    array(['low', 'high'], dtype='<U4')
    """
    return read_strict_json_file(Path(path), lambda plain: TableModel.from_dict(plain, patient=patient))
