"""The command line: ``tightdp COMMAND ...``. A file a command, with ``add_parser(commands)`` and ``run(arguments)``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from .. import __version__
from . import calibrate, delta, epsilon, info, plot, train

COMMANDS = (epsilon, delta, calibrate, plot, train, info)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and how to get help."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = _Parser(prog="tightdp", description="Certified differential privacy accounting and private training.")
    parser.add_argument("--version", action="version", version=f"tightdp {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)
    for command in COMMANDS:
        command.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns 0, or 2 after one line about bad input."""
    try:
        arguments = build_parser().parse_args(argv)
        result: int = arguments.run(arguments)
        sys.stdout.flush()
        return result
    except BrokenPipeError:  # the reader of our output left, which is its right
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError, OSError, ImportError) as error:
        print(f"tightdp: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("tightdp: interrupted", file=sys.stderr)
        return 130
