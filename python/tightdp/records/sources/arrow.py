"""Reads Parquet and Arrow files as columns of text. This needs the extra ``arrow``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from ..._support.files import open_regular_file
from ..text import find_repeated_column_names, join_record_column_names, write_record_cell_as_text

PARQUET, ARROW = b"PAR1", b"ARROW1"
"""First bytes of Parquet files and of Arrow files."""


def is_arrow_or_parquet_file(start: bytes) -> bool:
    """Returns whether a file that begins with the bytes ``start`` is a Parquet or an Arrow file."""
    return start.startswith((PARQUET, ARROW))


def read_arrow_cells(file: Path) -> dict[str, list[str]]:
    """Returns the cells of each column as text. The text of a missing cell is empty.

    Raises ValueError, which names the file, if the file is damaged or its columns hold neither numbers nor text.
    """
    try:
        arrow: Any = import_module("pyarrow")
        dataset: Any = import_module("pyarrow.dataset")
    except ImportError as error:
        raise ImportError(f"{file}: needs pip install pyarrow: {error}") from None
    with open_regular_file(file) as raw:
        kind = "parquet" if raw.read(4) == PARQUET else "ipc"
    try:
        table: Any = dataset.dataset(str(file), format=kind).to_table()
    except (arrow.ArrowInvalid, OSError) as error:
        raise ValueError(f"{file}: is damaged: {str(error).partition(chr(10))[0]}") from None
    nested = [field.name for field in table.schema if arrow.types.is_nested(field.type)]
    if nested:
        raise ValueError(
            f"{file}: columns must hold numbers or text, and these hold neither: {join_record_column_names(nested)}"
        )
    twice = find_repeated_column_names(table.column_names)
    if twice:
        raise ValueError(f"{file}: columns named twice: {join_record_column_names(twice)}")
    return {
        name: ["" if cell is None else write_record_cell_as_text(cell).strip() for cell in table[name].to_pylist()]
        for name in table.column_names
    }
