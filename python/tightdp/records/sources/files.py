"""Reads Parquet, Arrow and CSV files block by block. This needs the extra ``arrow``."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from os import PathLike, fspath, scandir, stat
from os.path import isdir, realpath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._support import _check
from ..._support.files import check_regular_file
from ..blocks import Blocks, count_block_rows
from ..text import MISSING, is_text_encoding, join_record_column_names

FORMATS = "parquet", "arrow", "csv"
"""Names of the formats of files."""
# Arrow's names for the types of columns that are read as numbers, and for the types of columns of text.
NUMBERS = "integer", "floating", "boolean", "null"
TEXTS = "string", "large_string", "dictionary"
NULLS = sorted({"NaN", *(spelt for text in MISSING for spelt in (text, text.upper(), text.capitalize()))})
"""Texts that stand for a missing number in a CSV file."""
BUFFER = 2**20
"""Number of bytes of a column of a Parquet file that are read at a time."""
SQUARE = 4096
"""Number of rows that are copied from columns at a time. Pieces of this size fit into the caches, so that copying is
three times as fast as for whole columns."""
CSV_BYTES = 2**22
"""Number of bytes of a CSV file that are parsed at a time."""


class FileBlocks(Blocks):
    """Blocks of rows of one or more files: Parquet, Arrow (Feather) or CSV.

    Parameters
    ----------
    paths : a file, a folder of files, or a list of files, which are read in the order of the list. No file may be named
        twice, not even under another name or through a link.
    label : the name of the column of targets.
    columns : the names of the columns of features, in the order of the features. None takes all columns but ``label``
        and ``weight``. Features are numbers or truth values, or text for a ``PrivatePipeline`` to encode.
    texts : the names of the columns of text in CSV files, which do not state the types of their columns.
    weight : the name of the column of weights, numbers >= 0 that multiply losses.
    format : "parquet", "arrow" or "csv". None chooses the format by the name of the first file.
    rows : the largest number of rows of a block. None takes as many rows as fill 32 MB.
    delimiter, encoding, decimal : the delimiter, encoding and decimal mark (a point or a comma) of CSV files. The first
        line of a CSV file has the names of its columns, and gzip may have compressed the file.
    missing : further texts that stand for a missing number in CSV files, such as "-999". Empty cells, "?", "-", ".",
        "NA", "N/A", "#N/A", "NaN", "null" and "None" always stand for a missing number.
    copy : whether a fit decodes Parquet and CSV files only once. Its first pass then writes the decoded columns to a
        temporary file without a name, in the folder that TMPDIR names. Later passes read this file, which is removed
        when the fit or the process ends. With False every pass decodes the files, and the data are not written
        anywhere. Arrow files are not copied, because they are stored nearly as they are in memory.

    Only the columns of ``label``, ``columns`` and ``weight`` are read. Features are float32 if all of them are float16,
    float32 or truth values, and float64 otherwise. A missing feature becomes NaN, and its record contributes nothing.
    In a regression, a record whose target is missing contributes nothing either. A missing label or weight is an error.
    Columns of text need a ``OneHotEncoder`` in a ``PrivatePipeline``. With ``copy``, such a pipeline copies the
    features that it computes, and not the columns of text. Errors name the file and, for CSV files, the row, and never
    quote a cell.

    Raises OSError, ValueError or TypeError, which names the file or the argument.

    >>> from tightdp.train import FileBlocks, LogisticRegression
    >>> trips = FileBlocks("trips/", label="tip")  # doctest: +SKIP
    >>> LogisticRegression(epsilon=1.0, delta=1e-6, bounds=(0, 100)).fit(trips)  # doctest: +SKIP
    """

    columns: tuple[str, ...] = ()
    """The names of the features."""

    def __init__(
        self,
        paths: str | PathLike[str] | Sequence[str | PathLike[str]],
        label: str,
        columns: Sequence[str] | None = None,
        *,
        format: str | None = None,
        rows: int | None = None,
        weight: str | None = None,
        texts: Sequence[str] = (),
        delimiter: str = ",",
        encoding: str = "utf-8",
        decimal: str = ".",
        missing: Sequence[str] = (),
        copy: bool = True,
    ) -> None:
        one = isinstance(paths, (str, PathLike))
        given_paths = fspath(paths) if one else [fspath(path) for path in paths]  # type: ignore[arg-type,union-attr]
        if not given_paths:
            raise ValueError("paths must be a file, a folder or a list of files, got none")
        copy = _check.check_flag_argument("copy", copy)
        self._others = [label] if weight is None else [label, weight]
        self.weighted = weight is not None
        self._format = _resolve_format_of_source_files(given_paths, format)
        self.copied, self.typed = copy and self._format != "arrow", self._format != "csv"
        if len(delimiter) != 1:
            raise ValueError(f"delimiter must be one character, such as a semicolon or a tab, got {delimiter!r}")
        if not is_text_encoding(encoding):
            raise ValueError(f"encoding must name an encoding, such as utf-8 or latin-1, got {encoding!r}")
        if isinstance(missing, str) or not all(isinstance(text, str) for text in missing):
            raise TypeError(f"missing must be a list of texts, got {missing!r}")
        _check.check_choice_argument("decimal", decimal, (".", ","))
        self._written = delimiter, encoding
        self._numbers_in_csv = decimal, [*NULLS, *missing]
        self._types_of_csv: dict[str, str] = {}
        self._in_lines: set[str] = set()
        """CSV files in which each record was found to be one line."""
        self._files = self._list_source_files(given_paths)
        with self._explain_source_read_errors(self._files[0]):
            kinds = {field.name: field.type for field in self._open_source_dataset(self._files[0]).schema}
        lacking = [name for name in (*self._others, *(columns or ())) if name not in kinds]
        if lacking:
            named = "label and columns" if weight is None else "label, weight and columns"
            raise ValueError(f"{named} must be among {join_record_column_names(kinds)}: {', '.join(lacking)} is not")
        self.columns = tuple(columns) if columns else tuple(name for name in kinds if name not in self._others)
        together = [*self.columns, *self._others]
        if len(set(together)) < len(together) or not self.columns:
            raise ValueError("columns must be one or more different names, none of them that of label or weight")
        in_csv, known = self._format == "csv", self._find_source_text_columns(kinds, texts)
        self.texts = {i: name for i, name in enumerate(self.columns) if name in known}
        others = [
            name
            for name in together
            if name != label and name not in known and not _is_arrow_type_among(kinds[name], NUMBERS)
        ]
        if others:
            raise ValueError(
                f"columns must hold numbers, and these do not: {', '.join(others)}; name those to keep"
                + (", and in texts those that hold text" if in_csv else "")
            )
        narrow = not in_csv and all(
            _is_arrow_type_among(kinds[name], ("float16", "float32", "boolean")) for name in self.columns
        )
        self.width = len(self.columns)
        self.dtype = np.dtype(object if self.texts else np.float32 if narrow else np.float64)
        if in_csv:  # Arrow chooses types by the first lines, and later numbers may be of another type
            numbers = [
                name for name in together if name != label and not _is_arrow_type_among(kinds[name], ("boolean",))
            ]
            self._types_of_csv = dict.fromkeys(numbers, "double") | dict.fromkeys(known, "string")
        given = None if rows is None else _check.check_count_argument("rows", rows)
        self._rows = count_block_rows(self.width, self.dtype, given)

    def _find_source_text_columns(self, kinds: dict[str, Any], named: Sequence[str]) -> set[str]:
        """Returns the names of the columns of text.

        In CSV files these are the ``named`` columns. They are not guessed from the cells, which are private.
        """
        if isinstance(named, str) or not set(named) <= set(self.columns):
            raise ValueError(f"texts must be names of columns, got {named!r}")
        if self._format == "csv":
            return set(named)
        found = {name for name in self.columns if _is_arrow_type_among(kinds[name], TEXTS)}
        if not set(named) <= found:
            raise ValueError(f"texts must be columns of text, and these are not: {', '.join(set(named) - found)}")
        return found

    def __iter__(self) -> Iterator[tuple[NDArray[Any], ...]]:
        for batch in self._read_source_batches():
            columns = [
                _read_arrow_texts(batch.column(i))
                if i in self.texts
                else _read_arrow_numbers(batch.column(i), self.dtype)
                for i in range(self.width)
            ]
            features = np.empty((len(batch), self.width), self.dtype)
            for start in range(0, len(batch), SQUARE):
                part = features[start : start + SQUARE]
                for i, column in enumerate(columns):
                    part[:, i] = column[start : start + SQUARE]
            weights = [_read_arrow_numbers(column, np.dtype(np.float64)) for column in batch.columns[self.width + 1 :]]
            yield features, _read_arrow_targets(batch.column(self.width)), *weights

    def _read_source_batches(self) -> Iterator[Any]:
        """Yields Arrow's batches of records in order, file by file and row group by row group.

        Arrow's own scanner is not used, because it reads so far ahead that its memory grows with the files.
        """
        for path in self._files:
            with self._explain_source_read_errors(path):
                records = 0
                for batch in self._read_source_file_parts(path):
                    records += len(batch)
                    named = batch.select([*self.columns, *self._others])
                    if self._format == "csv" and _import_pyarrow().types.is_binary(named.column(self.width).type):
                        raise self._build_source_encoding_error(
                            path
                        )  # Arrow returns bytes for text that it cannot decode
                    for start in range(0, len(named), self._rows):
                        yield named.slice(start, self._rows)
                if self._format == "csv" and path not in self._in_lines:
                    self._check_source_file_lines(path, records)

    def _check_source_file_lines(self, path: str, records: int) -> None:
        """Raises ValueError unless each record is one line. A quote that is not closed would join later lines to its
        record."""
        lines, ended = 0, True
        for text in self._decode_source_file(path):
            ends = np.isin(np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32), (10, 13))
            lines += int(np.count_nonzero(~ends & np.concatenate([[ended], ends[:-1]])))
            ended = bool(ends[-1])
        if lines != records + 1:
            raise ValueError(
                f"paths must be files with a record in each line: {path} has cells that go on over the end of a line, "
                "such as behind a quote that is not closed"
            )
        self._in_lines.add(path)

    def _decode_source_file(self, path: str) -> Iterator[str]:
        """Yields the text of a CSV file, piece by piece."""
        decoder = codecs.getincrementaldecoder(self._written[1])()
        with _import_pyarrow().input_stream(path, compression="detect") as raw:
            while data := raw.read(CSV_BYTES):
                if text := decoder.decode(data):
                    yield text

    def _read_source_file_parts(self, path: str) -> Iterator[Any]:
        """Yields the record batches of a file in order, a few rows at a time."""
        names = [*self.columns, *self._others]
        if self._format == "parquet":
            parquet: Any = import_module("pyarrow.parquet")
            with parquet.ParquetFile(path, buffer_size=BUFFER) as file:
                for group in range(file.num_row_groups):
                    yield from file.iter_batches(self._rows, row_groups=[group], columns=names)
        elif self._format == "csv":
            csv: Any = import_module("pyarrow.csv")
            with csv.open_csv(path, **self._build_source_csv_options(names)) as file:
                yield from file
        else:
            arrow = _import_pyarrow()
            with arrow.OSFile(path) as raw:
                file = arrow.ipc.open_file(raw)
                for i in range(file.num_record_batches):
                    yield file.get_batch(i)

    @contextmanager
    def _explain_source_read_errors(self, path: str) -> Iterator[None]:
        """Replaces Arrow's errors, which may quote a record, by errors that name only the file and the row."""
        try:
            yield
        except _import_pyarrow().ArrowInvalid:
            row = self._find_bad_source_row(path) if self._format == "csv" else None
            where = "" if row is None else f" in row {row:,}, where the names are row 1"
            form = f"{self._format} in {self._written[1]}" if self._format == "csv" else self._format
            raise ValueError(
                f"paths must be files of one form: {path} cannot be read as {form}, two of its columns have "
                f"one name, or a column holds something that is no number{where}"
            ) from None
        except UnicodeError:
            raise self._build_source_encoding_error(path) from None
        except OSError as error:
            if error.errno is not None:
                raise
            raise ValueError(f"paths must be files of one form: {path} is damaged") from None

    def _build_source_encoding_error(self, path: str) -> ValueError:
        return ValueError(f"encoding must be that of the files: {path} is not text in {self._written[1]}")

    def _find_bad_source_row(self, path: str) -> int | None:
        """Returns the number of the first row of a CSV file that cannot be read, or None if Arrow does not report it.

        Arrow counts rows only if a single thread reads the file."""
        csv: Any = import_module("pyarrow.csv")
        options = self._build_source_csv_options([*self.columns, *self._others] if self.columns else None)
        options["read_options"].use_threads = False
        try:
            with csv.open_csv(path, **options) as file:
                for _ in file:
                    pass
        except UnicodeError:
            return None
        except _import_pyarrow().ArrowInvalid as error:  # up to the row's number, the message quotes no record
            found = re.match(r"(?:CSV parse error|In CSV column #\d+): Row #(\d+): ", str(error))
            return int(found[1]) if found else None
        return None

    def _list_source_files(self, paths: str | list[str]) -> list[str]:
        """Returns the files. Raises ValueError if a file is named twice, because its records would count twice."""
        files: list[str] = self._open_source_dataset(paths, _import_pyarrow().schema([])).files
        if not files:
            raise ValueError(f"paths must be a file, a folder or a list of files: {paths} holds none")
        seen: dict[Any, str] = {}
        for path in files:
            check_regular_file(path)
            at = stat(path)
            other = seen.setdefault((at.st_dev, at.st_ino or realpath(path)), path)
            if other is not path:
                raise ValueError(f"paths must name each file once: {path} is the same file as {other}")
        return files

    def _open_source_dataset(self, paths: str | list[str], schema: Any = None) -> Any:
        """Returns Arrow's data set of the files at ``paths``. Its schema is by default that of the first file."""
        dataset: Any = import_module("pyarrow.dataset")
        form = dataset.CsvFileFormat(**self._build_source_csv_options()) if self._format == "csv" else self._format
        return dataset.dataset(paths, schema=schema, format=form)

    def _build_source_csv_options(self, names: Sequence[str] | None = None) -> dict[str, Any]:
        """Returns the options of Arrow's reader of CSV files, to read the columns ``names``, or all columns if given
        None."""
        csv: Any = import_module("pyarrow.csv")
        delimiter, encoding = self._written
        types = {name: _import_pyarrow().type_for_alias(kind) for name, kind in self._types_of_csv.items()}
        decimal, nulls = self._numbers_in_csv
        convert = csv.ConvertOptions(
            column_types=types, null_values=nulls, include_columns=names, decimal_point=decimal
        )
        return {
            "parse_options": csv.ParseOptions(delimiter=delimiter),
            "read_options": csv.ReadOptions(encoding=encoding, block_size=CSV_BYTES),
            "convert_options": convert,
        }


def _import_pyarrow() -> Any:
    """Returns the module pyarrow. Raises ImportError, with the command that installs it, if it is missing."""
    try:
        return import_module("pyarrow")
    except ImportError as error:
        raise ImportError(f"FileBlocks needs pip install pyarrow: {error}") from None


def _resolve_format_of_source_files(paths: str | list[str], given: str | None) -> str:
    """Returns the given format, or the format of the first file, which may be in a folder."""
    _import_pyarrow()
    if given is not None:
        return _check.check_choice_argument("format", given, FORMATS)
    first = paths if isinstance(paths, str) else paths[0]
    while isdir(first):  # Arrow skips hidden files as well
        inside = sorted(entry.path for entry in scandir(first) if not entry.name.startswith((".", "_")))
        if not inside:
            break
        first = inside[0]
    first = first.lower().removesuffix(".gz")
    if first.endswith((".csv", ".tsv", ".txt")):
        return "csv"
    return "arrow" if first.endswith((".arrow", ".feather", ".ipc")) else "parquet"


def _is_arrow_type_among(kind: Any, names: Sequence[str]) -> bool:
    """Returns whether ``kind``, a type of Arrow, is one of the named types."""
    return any(getattr(_import_pyarrow().types, f"is_{name}")(kind) for name in names)


def _read_arrow_texts(column: Any) -> NDArray[Any]:
    """Returns a column of text as Python strings. Equal texts share one object, and missing texts are None."""
    if not _is_arrow_type_among(column.type, ("dictionary",)):
        column = column.dictionary_encode(null_encoding="encode")
    different = np.array([*_decode_arrow_values(column), None], dtype=object)
    return np.asarray(different[column.indices.fill_null(len(different) - 1).to_numpy(False)])


def _decode_arrow_values(column: Any) -> list[Any]:
    """Returns the different values of a column. Raises ValueError for cells that are not text in UTF-8."""
    try:
        return list(column.dictionary.to_pylist())
    except UnicodeError:
        raise ValueError("columns must hold text in UTF-8, and a cell is none") from None


def _read_arrow_numbers(column: Any, dtype: Any) -> NDArray[Any]:
    """Returns a column as floats. Missing numbers become NaN."""
    return np.asarray(column.cast("float32" if dtype == np.float32 else "float64", safe=False).to_numpy(False))


def _read_arrow_targets(column: Any) -> NDArray[Any]:
    """Returns a column of labels or numbers. Missing numbers become NaN. Raises ValueError if a label is missing."""
    if column.null_count and _is_arrow_type_among(column.type, ("integer", "floating")):
        return np.asarray(column.cast("float64", safe=False).to_numpy(False))
    if column.null_count:
        raise ValueError("y must have one target for each record: some are missing")
    if column.type in (_import_pyarrow().string(), _import_pyarrow().large_string()):
        column = column.dictionary_encode()
    if _import_pyarrow().types.is_dictionary(column.type):
        names = np.asarray(_decode_arrow_values(column))
        return np.asarray(names[column.indices.to_numpy(False)])
    return np.asarray(column.to_numpy(False))
