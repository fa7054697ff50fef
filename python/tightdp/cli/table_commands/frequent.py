"""tightdp frequent: release the frequent values of a column with a guarantee, as categories for tightdp train."""

from __future__ import annotations

import argparse
import csv
import io
import json
import shlex
from pathlib import Path

from ...frequent import frequent_values
from ...records.sources.rows import Rows
from .. import command_files
from ..accounting_commands.number import parse_real_argument


def add_command_arguments(p: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    p.add_argument("data", type=Path, help="CSV file with a header, plain or gzip, or a Parquet or Arrow file")
    p.add_argument("--column", required=True, help="name of the column")
    p.add_argument("--epsilon", type=parse_real_argument, required=True, help="of the guarantee, > 0, as 1")
    p.add_argument("--delta", type=parse_real_argument, required=True, help="in (0, 1), as 1e-6")
    p.add_argument("--ledger", metavar="LEDGER", help="spend from this ledger first (tightdp ledger; default: none)")
    command_files.add_cli_file_format_arguments(p)
    p.add_argument("--json", action="store_true", help="print the values and the statement as JSON")


def run_command(arguments: argparse.Namespace) -> int:
    """Prints the statement, and then the values in the form of an option of tightdp train."""
    cells = Rows.read(arguments.data, command_files.read_cli_file_format_arguments(arguments)).get_source_column(
        arguments.column
    )
    note = f"frequent values of {arguments.column}"
    budget = {"epsilon": arguments.epsilon, "delta": arguments.delta}
    command_files.check_standard_output()
    found = frequent_values(cells, **budget, ledger=arguments.ledger, note=note)
    if arguments.json:
        command_files.print_cli_file_release(
            json.dumps({"statement": found.statement.to_dict(), "values": found.values})
        )
        return 0
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(found.values)
    option = f"--categories {shlex.quote(f'{arguments.column}={line.getvalue()}')}"
    command_files.print_cli_file_release(
        f"{found.statement}\n{option if found.values else 'no value was frequent enough'}"
    )
    return 0
