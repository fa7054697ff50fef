"""Reads a table as text, column by column, from a CSV, Parquet or Arrow file, or from a mapping of columns.

Errors name the file, the record and the column, but never quote a cell, because errors may end up in a log.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from ..._support.files import open_regular_file
from ..text import (
    MISSING,
    find_repeated_column_names,
    is_text_encoding,
    join_record_column_names,
    parse_cell_number,
    write_record_cell_as_text,
)
from . import arrow

LONGEST = 2**24
"""Largest number of characters of a line: a thousand for each of 16,000 columns. With this limit, a file without line
ends is not read into memory as one line."""


@dataclass(frozen=True)
class TextFormat:
    """The format of a text file. Raises ValueError for an impossible delimiter, encoding or decimal mark."""

    delimiter: str = ","
    encoding: str = "utf-8-sig"
    decimal: str = "."
    missing: frozenset[str] = frozenset()
    """Texts of cells that count as missing, in all columns, besides empty cells and the texts in ``MISSING``. A whole
    number also matches a cell with zeros after the decimal mark: -999 matches -999.0."""

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n\0 ':
            raise ValueError(
                f"--delimiter {self.delimiter!r}: must be one character, such as ; or a tab, and no blank or quote"
            )
        if not is_text_encoding(self.encoding):
            raise ValueError(f"--encoding {self.encoding}: must name an encoding, such as utf-8 or latin-1")
        if self.decimal not in (".", ","):
            raise ValueError(f"--decimal {self.decimal!r}: must be a point or a comma")

    def is_missing_in_source(self, cell: str) -> bool:
        """Returns whether the text of a cell is declared to stand for a missing value."""
        whole, mark, decimals = cell.partition(self.decimal)
        if mark and decimals and not decimals.strip("0") and parse_cell_number(cell, self.decimal) is not None:
            return cell in self.missing or whole in self.missing
        return cell in self.missing


class _LineTooLong(Exception):
    """Error that is raised for a line of more than ``LONGEST`` characters."""


def _read_csv_lines(text: TextIO) -> Iterator[str]:
    """Yields the lines of a file. Raises ``_LineTooLong`` for a line of more than ``LONGEST`` characters."""
    for number in itertools.count(1):
        line = text.readline(LONGEST + 1)
        if len(line) > LONGEST:
            raise _LineTooLong(f"line {number} has more than {LONGEST:,} characters, the most that a line may have")
        if not line:
            return
        yield line


def _name_csv_line_in_errors(file: Path, reader: Any) -> Iterator[list[str]]:
    """Yields the rows of a CSV reader. The reader's errors, for example about a long cell, become ValueErrors that name
    the line."""
    try:
        yield from reader
    except csv.Error as error:
        raise ValueError(f"{file}, line {reader.line_num}: {error}") from None


@dataclass(frozen=True)
class Rows:
    """The cells of a table as text, without blanks around them."""

    file: str
    columns: Mapping[str, list[str]]
    decimal: str = "."
    """The decimal mark of numbers: a point or a comma."""

    @classmethod
    def read(cls, file: Path, written: TextFormat | None = None) -> Rows:
        """Returns the table in a file of CSV (plain or compressed by gzip), Parquet or Arrow.

        Raises ValueError, which names the file and the line, for a file that is not a table.
        """
        written = written or TextFormat()
        if file.is_dir():
            raise ValueError(
                f"{file}: must be one file of records, and is a folder (in Python, FileBlocks reads those)"
            )
        table = cls._read_source_cells(file, written)
        columns = {
            name: ["" if written.is_missing_in_source(cell) else cell for cell in cells] if written.missing else cells
            for name, cells in table.columns.items()
        }
        return cls(table.file, columns, written.decimal)

    @classmethod
    def _read_source_cells(cls, file: Path, written: TextFormat) -> Rows:
        """Returns the cells as they are in the file, before ``missing`` is applied."""
        try:
            with open_regular_file(file) as raw:
                start = raw.read(6)
                if arrow.is_arrow_or_parquet_file(start):
                    return cls._read_source_column_file(file)
                compressed = start.startswith(b"\x1f\x8b")
                raw.seek(0)
                data = gzip.GzipFile(fileobj=raw) if compressed else raw
                with io.TextIOWrapper(data, encoding=written.encoding, newline="") as text:
                    return cls._parse_source_csv(file, text, written.delimiter)
        except UnicodeError:
            name = "UTF-8" if written.encoding == TextFormat.encoding else written.encoding
            raise ValueError(f"{file}: must be a text file in {name}, and is not (--encoding)") from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{file}: is compressed and damaged: {error}") from None
        except _LineTooLong as error:
            raise ValueError(f"{file}: {error}") from None

    @classmethod
    def _read_source_column_file(cls, file: Path) -> Rows:
        """Returns the cells of a Parquet or Arrow file."""
        cells = arrow.read_arrow_cells(file)
        if not cells:
            raise ValueError(f"{file}: the file has no columns")
        if not next(iter(cells.values())):
            raise ValueError(f"{file}: no records")
        return cls(str(file), cells)

    @classmethod
    def _parse_source_csv(cls, file: Path, text: TextIO, delimiter: str) -> Rows:
        """Returns the table of CSV text.

        Raises ValueError, which names the line, for a row whose length differs from the header's.
        """
        reader = csv.reader(_read_csv_lines(text), skipinitialspace=True, delimiter=delimiter)
        rows = _name_csv_line_in_errors(file, reader)
        header = [name.strip() for name in next(rows, [])]
        if not header:
            raise ValueError(f"{file}: the file is empty; a header line is expected")
        twice = find_repeated_column_names(header)
        if twice:
            raise ValueError(f"{file}: columns named twice: {join_record_column_names(twice)}")
        cells: list[list[str]] = [[] for _ in header]
        before = reader.line_num
        for row in rows:
            before += 1
            if reader.line_num > before:
                raise ValueError(
                    f"{file}, line {before}: a cell goes on over the end of the line, such as behind a quote that is "
                    f"not closed; each line must be a record"
                )
            if not row:
                continue
            if len(row) != len(header):
                hint = " (see --delimiter)" if len(header) == 1 else ""
                raise ValueError(
                    f"{file}, line {reader.line_num}: {len(row)} cells where the header has {len(header)}{hint}"
                )
            for column, cell in zip(cells, row, strict=True):
                column.append(cell.strip())
        if not cells[0]:
            raise ValueError(f"{file}: no records below the header")
        return cls(str(file), dict(zip(header, cells, strict=True)))

    @classmethod
    def from_source_table(cls, table: Any, names: Sequence[str]) -> Rows:
        """Returns the columns ``names`` of a mapping, a data frame or ``Rows``. A cell that is None counts as missing.

        Raises ValueError if the table lacks one of the columns.
        """
        file, decimal = (table.file, table.decimal) if isinstance(table, Rows) else ("table", ".")
        table = table.columns if isinstance(table, Rows) else table
        lacking = [name for name in names if name not in table]
        if lacking:
            raise ValueError(
                f"table must have the columns {join_record_column_names(names)}: it lacks "
                f"{join_record_column_names(lacking)}"
            )
        columns = {
            name: ["" if cell is None else write_record_cell_as_text(cell).strip() for cell in table[name]]
            for name in names
        }
        if len({len(cells) for cells in columns.values()}) > 1:
            raise ValueError("table must have columns of one length")
        return cls(file, columns, decimal)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def get_source_column(self, name: str) -> list[str]:
        if name not in self.columns:
            hint = " (see --delimiter)" if len(self.columns) == 1 else ""
            raise ValueError(
                f"{self.file}: no column {name!r}; there are {join_record_column_names(self.columns)}{hint}"
            )
        return self.columns[name]

    def mark_undeclared(self, name: str, values: Sequence[str]) -> NDArray[np.bool_]:
        """Returns a mask of the records whose text in a column is not in ``values``. An empty cell is a text too."""
        known = frozenset(values)
        return np.array([cell not in known for cell in self.get_source_column(name)])

    def read_source_numbers(self, name: str, *, allow_missing: bool) -> NDArray[np.float64]:
        """Returns a column as finite numbers, with NaN for missing cells.

        Raises ValueError, which names the record, for text, for infinite numbers, and for missing cells unless
        ``allow_missing`` is True.
        """
        out = np.empty(len(self.get_source_column(name)))
        for record, cell in enumerate(self.get_source_column(name), start=1):
            missing = cell.lower() in MISSING
            if missing and not allow_missing:
                raise ValueError(f"{self.file}: record {record} has no {name}; see --allow-missing, and train --fill")
            number = None if missing else parse_cell_number(cell, self.decimal)
            if number is not None and not math.isfinite(number):
                raise ValueError(f"{self.file}: record {record}, column {name}: must be a finite number")
            if number is None and not missing:
                raise ValueError(
                    f"{self.file}: record {record}, column {name}: not a number "
                    f"(text columns are named with --categories or --learn-categories, or left out with --drop; "
                    f"--missing names texts that stand for missing numbers, and --decimal a decimal comma)"
                )
            out[record - 1] = np.nan if number is None else number
        return out
