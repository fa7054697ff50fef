"""Help: every option says what it is and what it is by default, and every example works as printed."""

import argparse
import shlex

import numpy as np
import pytest

from tightdp import cli
from tightdp.cli.examples import EXAMPLES


def list_options(parser):
    """Every option and argument below a parser, with the command that it belongs to."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from list_options(below)
        elif not isinstance(action, argparse._HelpAction):
            yield parser.prog, action


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_option_has_a_text_and_a_default(command):
    (commands,) = (a for a in cli.build_command_parser(command)._actions if isinstance(a, argparse._SubParsersAction))
    for prog, action in list_options(commands.choices[command]):
        name = "/".join(action.option_strings) or action.dest
        assert action.help, f"{prog} {name} has no text"
        if not action.required and action.nargs != 0:
            assert "default:" in action.help, f"{prog} {name} does not say its default"


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_shows_the_examples(command, capsys):
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    shown = capsys.readouterr().out
    assert EXAMPLES[command] and all(line in shown for line in EXAMPLES[command])


def test_examples_work_as_printed(tmp_path, monkeypatch, capsys):
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    pytest.importorskip("shtab", reason="needs shtab")
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    age, hours = generator.integers(18, 91, 800), generator.integers(0, 61, 800)
    owner = np.where(age + hours > 80, "yes", "no")
    for name, rows in (("people.csv", slice(0, 600)), ("others.csv", slice(600, 800))):
        lines = [f"{a},{h},{o}" for a, h, o in zip(age[rows], hours[rows], owner[rows], strict=True)]
        (tmp_path / name).write_text("\n".join(["age,hours,owner", *lines]) + "\n")
    for command in cli.COMMANDS:
        for line in EXAMPLES[command]:
            program, *arguments = shlex.split(line.replace("\\\n", " "))
            assert program == "tightdp" and arguments[0] == command
            assert cli.main(arguments) == 0, (line, capsys.readouterr().err)
