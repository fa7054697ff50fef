"""tightdp statement: what a model's privacy bound covers, assumes and leaves out, as text or as a page to sign."""

from __future__ import annotations

import argparse
from pathlib import Path

from ...tables.model_file import load
from .. import command_files


def add_command_arguments(p: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    p.add_argument("model", type=Path, help="model file that tightdp train wrote")
    p.add_argument(
        "--out",
        type=command_files.read_output_path,
        metavar="HTML",
        help="also write a page to this file, which may be a page of the same model (default: print the text alone)",
    )
    p.add_argument("--force", action="store_true", help="replace the page of --out even if it is of another model")
    p.add_argument("--json", action="store_true", help="print JSON")


def run_command(arguments: argparse.Namespace) -> int:
    """Prints the statement, and writes its page if a file for it is named."""
    command_files.check_command_output(arguments.out, arguments.force, (arguments.model,), command_files.PAGE)
    statement = load(arguments.model).statement
    command_files.check_replaced_cli_page(arguments.out, statement, arguments.force)
    if arguments.out is not None:
        statement.save(arguments.out)
    print(statement.to_json() if arguments.json else statement)
    return 0
