"""tightdp completion: a script for the shell, which then completes commands, options and files.

Needs shtab: pip install shtab. For bash, add this line to ~/.bashrc:

    eval "$(tightdp completion bash)"
"""

from __future__ import annotations

import argparse


def add_command_arguments(p: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    p.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="shell that the script is for")


def run_command(arguments: argparse.Namespace) -> int:
    """Prints the script for the shell."""
    from .main import build_command_parser

    try:
        import shtab
    except ImportError:
        raise ImportError("completion needs shtab: pip install shtab") from None
    print(shtab.complete(build_command_parser(None, every=True), shell=arguments.shell))
    return 0
