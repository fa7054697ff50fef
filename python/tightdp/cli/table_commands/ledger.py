"""tightdp ledger: one budget, in a file or a PostgreSQL database, for everything that is released from a data set.

The action "create" makes a ledger, "spend" charges a release before it is made, "show" says how much is spent, and
"report" lists all entries.
"""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

from ..._support.number_texts import format_up
from ...accounting.running_accounts.filters import FAMILIES
from ...ledger import Ledger
from ...options import NEIGHBORS
from ...release_gate.shares import FAILURE
from ...statement.wording import make_statement_line
from ..accounting_commands import composition as shared
from ..accounting_commands.expression import parse_composition_text
from ..accounting_commands.number import parse_real_argument

EPILOG = """\
A spend that the budget does not cover is refused, with exit code 3, and charges nothing. Release only after exit code
0. A ledger knows what was charged to it, and not what was released past it. """


def add_command_arguments(p: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    actions = p.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=type(p))

    def add_ledger_action(name: str, summary: str) -> argparse.ArgumentParser:
        """Adds an action with its ledger, and returns its parser."""
        one = actions.add_parser(name, help=summary, description=summary)
        one.add_argument("ledger", help="a file, or an address as in postgresql://user@host/database")
        one.add_argument("--json", action="store_true", help="print JSON")
        return one

    create = add_ledger_action("create", "make a ledger, whose budget, relation and data set are then fixed")
    create.add_argument("--dataset", required=True, metavar="TEXT", help="which data the budget is about")
    create.add_argument(
        "--epsilon", type=parse_real_argument, required=True, help="budget for everything together, > 0, as 2"
    )
    create.add_argument("--delta", type=parse_real_argument, required=True, help="in (0, 1), as 1e-6")
    create.add_argument("--neighbors", choices=NEIGHBORS, default="add_or_remove", help=shared.NEIGHBORS_HELP)
    create.add_argument("--family", choices=FAMILIES, default="renyi", help="what is added up (default: %(default)s)")
    create.add_argument(
        "--expected",
        metavar="EXPRESSION",
        help="run that is planned: steers the Renyi order, never the guarantee (default: none)",
    )
    create.add_argument(
        "--failure",
        type=parse_real_argument,
        help="part of delta for what may fail, as learned labels and frequent values (default: a tenth of delta)",
    )
    spend = add_ledger_action("spend", "charge releases, before they are made")
    shared.add_composition_arguments(spend)
    spend.add_argument("--note", default="", metavar="TEXT", help="what it is for (default: no note)")
    add_ledger_action("show", "the budget, and how much of it is spent")
    add_ledger_action("report", "everything that was spent")


def run_command(arguments: argparse.Namespace) -> int:
    """Performs one of the four actions, and then prints the state of the ledger."""
    if arguments.action == "create":
        expected = None if arguments.expected is None else parse_composition_text(arguments.expected)
        names = ("dataset", "epsilon", "delta", "neighbors", "family", "failure")
        budget = {name: getattr(arguments, name) for name in names}
        if arguments.failure is None:
            budget["failure"] = FAILURE * arguments.delta
        ledger = Ledger.create(arguments.ledger, expected=expected, **budget)
    else:
        ledger = Ledger(arguments.ledger)
    if arguments.action == "spend":
        ledger.spend(shared.build_composition_from_arguments(arguments), note=arguments.note)
    plain = _dump_command_ledger(ledger, arguments.action == "report")
    print(json.dumps(plain, allow_nan=False) if arguments.json else "\n".join(_describe_command_ledger(ledger, plain)))
    return 0


def _dump_command_ledger(ledger: Ledger, entries: bool) -> dict[str, Any]:
    """Returns the budget and the spent share as plain values for JSON, and with ``entries`` also the history."""
    history, spent = ledger.history, ledger.spent
    plain: dict[str, Any] = {
        "dataset": ledger.dataset,
        "epsilon": ledger.epsilon,
        "delta": ledger.delta,
        "neighbors": ledger.neighbors,
        "family": ledger.family,
        "spent": spent if math.isfinite(spent) else None,
        "entries": len(history),
    }
    if entries:
        plain["history"] = [
            {
                "number": e.number,
                "time": e.time,
                "note": e.note,
                "release": e.release,
                "releases": " + ".join(f"{mechanism!r} * {count}" for mechanism, count in e.releases),
            }
            for e in history
        ]
    return plain


def _describe_command_ledger(ledger: Ledger, plain: dict[str, Any]) -> list[str]:
    """Returns the lines that describe the ledger. If ``plain`` has a history, each entry has a line."""
    share = "more than all" if plain["spent"] is None else format_up(plain["spent"], ".1%")
    count = plain["entries"]
    lines = [
        make_statement_line(" ".join(plain["dataset"].split())),
        f"({ledger.epsilon:g}, {ledger.delta:g})-differentially private in all, neighbors {ledger.neighbors}",
        f"spent: {share} of the budget ({ledger.family}), in {count} {'entry' if count == 1 else 'entries'}",
    ]
    for entry in plain.get("history", ()):
        note = make_statement_line(" ".join(entry["note"].split()))
        lines.append(f"{entry['number']}  {entry['time']}  {entry['releases']}{'  ' + note if note else ''}")
    return lines
