"""Runs a command of the command line, and turns errors into messages and exit codes.

Each command is a module with ``add_command_arguments`` and ``run_command``.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from .._core import __version__
from ..accounting.running_accounts.filters import BudgetExceeded
from .examples import write_command_examples

# Names of the commands whose modules are in the folder ``accounting_commands``, with summaries for the help.
_ACCOUNTING = {
    "epsilon": "bounds on epsilon at a given delta",
    "delta": "bounds on delta at a given epsilon",
    "calibrate": "the noise that meets a target",
    "sweep": "bounds over ranges of settings, as CSV",
    "plot": "draw the privacy profile and the trade-off curve",
}
# Names of the commands whose modules are in the folder ``table_commands``, with summaries.
_TABLES = {
    "schema": "draft the column bounds and categories of a CSV file, for review",
    "frequent": "the values of a column that occur often, released with a guarantee",
    "train": "train a private linear model on a CSV file",
    "predict": "what a model says of new records",
    "test": "how well a model does on new records, released with a guarantee",
    "statement": "what the privacy of a model covers, as text or as a page to sign",
    "verify": "whether a model, a statement or its page says what follows from its own account",
    "ledger": "one budget for everything that is released from a data set",
}
_OTHERS = {
    "info": "version, CPU features, CUDA, engines",
    "completion": "a script that completes commands and options in the shell",
}
_FOLDERS = {".accounting_commands": _ACCOUNTING, ".table_commands": _TABLES, "": _OTHERS}
"""Folders of this package, each with the commands whose modules are in the folder."""
COMMANDS = {name: summary for commands in _FOLDERS.values() for name, summary in commands.items()}
"""The summary of each command, by the command's name."""


class _CommandParser(argparse.ArgumentParser):
    """A parser whose errors take one line and say how to get help."""

    def error(self, message: str) -> NoReturn:
        """Prints the error in one line, and ends the program with exit code 2."""
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def build_command_parser(command: str | None, every: bool = False) -> argparse.ArgumentParser:
    """Returns the parser of ``command``, or of all commands if ``every`` is true.

    The parser lists every command, but the modules of the other commands are not imported, because some need
    scikit-learn.
    """
    parser = _CommandParser(
        prog="tightdp", description="Certified differential privacy accounting and private training."
    )
    parser.add_argument("--version", action="version", version=f"tightdp {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_CommandParser)
    for name, summary in COMMANDS.items():
        if name != command and not every:
            commands.add_parser(name, help=summary)
            continue
        (folder,) = (folder for folder, names in _FOLDERS.items() if name in names)
        found = import_module(f"{folder}.{name}", __package__)
        raw = argparse.RawDescriptionHelpFormatter
        epilog = "\n\n".join([*filter(None, [getattr(found, "EPILOG", "").strip()]), write_command_examples(name)])
        p = commands.add_parser(name, help=summary, description=found.__doc__, epilog=epilog, formatter_class=raw)
        found.add_command_arguments(p)
        p.set_defaults(run=found.run_command)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit code.

    The code is 0 if the command succeeded, and 2 if its input was bad. The code is 3 if a budget does not cover the
    command's charge, and 130 if the command was interrupted. A command may return 3 for another reason, which its help
    names.
    """
    argv = sys.argv[1:] if argv is None else argv
    if sys.stdout is None:  # standard output was closed before the program began
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.platform == "win32" and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # UTF-8 whatever the code page, as for the files of --out
    try:
        arguments = build_command_parser(argv[0] if argv else None).parse_args(argv)
        result: int = arguments.run(arguments)
        sys.stdout.flush()
        return result
    except BrokenPipeError:  # the reader of the output has closed the pipe, which is no error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError, OSError, ImportError) as error:
        print(f"tightdp: error: {_make_cli_error_printable(error)}", file=sys.stderr)
        return 2
    except BudgetExceeded as error:
        print(f"tightdp: refused: {_make_cli_error_printable(error)}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print("tightdp: interrupted", file=sys.stderr)
        return 130


def _make_cli_error_printable(error: Exception) -> str:
    """Returns an error as one line without control characters.

    Names of columns come from files, and may contain characters that a terminal would obey. For an error of the
    operating system, the line is the name of the file and then the system's message.
    """
    words = str(error)
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        words = f"{os.fsdecode(error.filename)}: {error.strerror}"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(words.split()))
