"""tightdp schema: a draft of what is to be declared of a table, for review. THE DRAFT IS NOT PRIVATE.

The draft is read off the records. Bounds are the smallest and the largest value of a column, and categories are the
values that occur. Columns of many different texts are dropped. Columns of texts or integers in which no value comes
twice are dropped too, because such columns identify people. The draft names the dropped columns. Replace everything in
the draft by what is known without the records, delete the entry "draft", and give the file to tightdp train --schema.
The schema lists the texts that --missing gives. Cells with these texts count as missing wherever the schema is used.
With --learn the draft states only the kind of each column: numbers, only the numbers 0 and 1, or texts. The draft then
copies no value from the records. Later, tightdp train learns bounds and categories with noise, and charges for them.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ...records.schema import draft_record_schema
from ...records.sources.rows import Rows
from .. import command_files


def add_command_arguments(p: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    p.add_argument("data", type=Path, help="CSV file with a header, plain or gzip, or a Parquet or Arrow file")
    p.add_argument("--label", required=True, metavar="COLUMN", help="the column to predict")
    p.add_argument("--out", type=command_files.read_output_path, help="the schema (default: DATA.schema.json)")
    p.add_argument("--learn", action="store_true", help="bounds and categories are to be learned with noise")
    command_files.add_cli_file_format_arguments(p)


def run_command(arguments: argparse.Namespace) -> int:
    """Writes the draft, and prints a line that says what it is."""
    out = arguments.out or command_files.make_cli_file_path_near_data(arguments.data, ".schema.json")
    # An existing file is not replaced, because it may be a schema that somebody has reviewed.
    command_files.check_command_output(out, None, (arguments.data,))
    written = command_files.read_cli_file_format_arguments(arguments)
    rows = Rows.read(arguments.data, written)
    drafted = draft_record_schema(rows, arguments.label, arguments.learn, written.missing)
    text = _write_command_schema_draft(drafted)
    out.touch(mode=0o600)  # only the holder of the data may read the draft
    out.write_text(text, encoding="utf-8")
    print(f"tightdp: wrote {out}: {drafted['draft']}", file=sys.stderr)
    return 0


def _write_command_schema_draft(schema: dict[str, Any]) -> str:
    """Returns JSON text with one line for each column, which is easy to review."""

    def dump_schema_value(value: Any) -> str:
        """Returns a value as JSON, in which letters that are not ASCII stay as they are."""
        return json.dumps(value, ensure_ascii=False)

    columns = ",\n".join(
        f"  {dump_schema_value(name)}: {dump_schema_value(how)}" for name, how in schema["columns"].items()
    )
    entries = [
        f" {dump_schema_value(name)}: {dump_schema_value(value)}" for name, value in schema.items() if name != "columns"
    ]
    return "{\n" + ",\n".join([*entries, f' "columns": {{\n{columns}\n }}']) + "\n}\n"
