"""Renders a statement as an HTML page for the person who signs. The page loads nothing from elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html import escape, unescape
from typing import Any

import numpy as np

from .._core import Budget
from . import curves
from .wording import (
    ARITHMETIC,
    CERTIFIED,
    CHARGE_NOTE,
    FALSE_ACCUSATIONS,
    NOISE,
    OTHERS_CHOSE,
    RELATIONS,
    format_stated_above,
    format_stated_below,
    make_statement_line,
)

Statement = Any
"""A ``tightdp.Statement``. This class cannot be imported here, because its module imports this module."""
UNITS = 2 * 10**9
"""Largest number of units of work for the curves and numbers that the page shows beside the guarantee. So much work
takes three seconds at most. Curves that would need more work are drawn with a wider band."""
META_NAME = "tightdp-statement"
"""Name of the HTML meta element that holds the statement as JSON, so that the page itself can be checked."""
MOST_MECHANISMS = 10
"""Largest number of distinct mechanisms that the page lists."""
STYLE = """
.tightdp { font: 15px/1.5 system-ui, sans-serif; color: #1d2430; max-width: 920px; margin: 0 auto; padding: 24px; }
.tightdp h1 { font-size: 25px; line-height: 1.25; margin: 0 0 4px; }
.tightdp h2 { font-size: 17px; margin: 28px 0 6px; border-bottom: 1px solid #d5dae2; padding-bottom: 3px; }
.tightdp .of { color: #5b6472; margin: 0 0 16px; }
.tightdp .made { color: #5b6472; margin: 20px 0 0; font-size: 13px; }
.tightdp .guarantee { background: #eef3fa; border-left: 4px solid #1f5a9e; padding: 10px 16px; margin: 0; }
.tightdp .warning { background: #fff3e6; border-left: 4px solid #c4501b; padding: 8px 16px; margin: 10px 0; }
.tightdp table { border-collapse: collapse; width: 100%; }
.tightdp th { text-align: left; font-weight: 600; width: 30%; }
.tightdp th, .tightdp td { vertical-align: top; padding: 4px 12px 4px 0; border-bottom: 1px solid #edf0f4; }
.tightdp td { overflow-wrap: anywhere; }
.tightdp ul { margin: 6px 0; padding-left: 22px; }
.tightdp .box { list-style: none; padding-left: 2px; }
.tightdp .box li { padding-left: 26px; text-indent: -26px; margin: 3px 0; }
.tightdp .box li::before { content: "\\2610"; display: inline-block; width: 26px; text-indent: 0; font-size: 18px; }
.tightdp code { font-size: 13px; overflow-wrap: anywhere; }
.tightdp .curves { display: flex; flex-wrap: wrap; gap: 16px; margin-top: 20px; }
.tightdp figure { flex: 1 1 380px; margin: 0; }
.tightdp figcaption { font-size: 13px; color: #5b6472; }
.tightdp svg { width: 100%; font: 11px system-ui, sans-serif; fill: #1d2430; }
.tightdp svg .grid { stroke: #e3e7ee; }
.tightdp svg .axis { font-size: 12px; font-weight: 600; }
.tightdp svg .band { fill: #1f5a9e; fill-opacity: .25; }
.tightdp svg .edge { fill: none; stroke: #1f5a9e; stroke-width: 1.6; }
.tightdp svg .reference { fill: none; stroke: #9a9a9a; stroke-dasharray: 4 4; }
.tightdp svg .mark { fill: #c4501b; }
.tightdp .sign { display: flex; flex-wrap: wrap; gap: 44px 28px; margin-top: 44px; }
.tightdp .sign div { flex: 1 1 180px; border-top: 1px solid; font-size: 13px; color: #5b6472; padding-top: 4px; }
@media print { .tightdp { padding: 0; } .tightdp figure, .tightdp tr, .tightdp li { break-inside: avoid; } }
"""


def render_statement_page(statement: Statement) -> str:
    """Returns the whole page as HTML."""
    title = f"Privacy statement: {statement.subject}"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="{META_NAME}" content="{escape(json.dumps(statement.to_dict()))}">'
        f"<title>{encode_text_for_page(title)}</title></head>\n<body>\n"
        f"{render_statement_body(statement, sign=True)}\n</body></html>\n"
    )


def find_statement_in_page(text: str) -> str | None:
    """Returns the JSON of the statement that a page shows, or None if ``text`` is not such a page."""
    found = re.search(rf'<meta name="{META_NAME}" content="([^"]*)">', text)
    return None if found is None else unescape(found[1])


def render_statement_body(statement: Statement, sign: bool = False) -> str:
    """Returns the sections of the page as one HTML element. With ``sign`` the element ends with lines for a
    signature."""
    bound, promise = statement.privacy, " ".join([statement.guarantee, *statement.meaning])
    sections = [
        "<h1>Privacy statement</h1>",
        f'<p class="of">{encode_text_for_page(statement.subject)}</p>',
        f'<p class="guarantee">{encode_text_for_page(promise)}{_state_power_on_page(statement)}</p>',
        *(f'<p class="warning"><b>Warning.</b> {encode_text_for_page(warning)}</p>' for warning in statement.warnings),
        "<h2>The guarantee</h2>",
        _render_statement_table(
            {
                "Neighbouring data sets": RELATIONS[statement.neighbors],
                "epsilon, upper end": f"{format_stated_above(bound.upper)}: what is promised",
                "epsilon, lower end": f"{format_stated_below(bound.lower)}: no smaller epsilon can be claimed",
                "delta": format_stated_above(statement.delta),
                "Engine": bound.engine,
                "Charged": _describe_charge_on_statement_page(statement),
                "Charge and settings": CHARGE_NOTE,
                "Number of records": "not used" if statement.size is None else f"{statement.size:,}",
                **_discard_missing_page_rows({"Data": statement.dataset, "Ledger": statement.ledger}),
            }
        ),
        f'<p class="made">{encode_text_for_page(OTHERS_CHOSE)}</p>',
        _render_statement_curves(statement),
    ]
    if statement.released:
        sections += ["<h2>What was released</h2>", _render_statement_list(statement.released)]
    sections += [
        "<h2>What the guarantee rests on</h2>",
        "<p>Each of these must be true, and what is given or declared must be known without the records. Nobody can "
        "check it from the release.</p>",
        _render_statement_list((*_list_stated_assumptions(statement),), "box"),
        "<h2>What it does not cover</h2>",
        _render_statement_list(statement.not_covered),
    ]
    sections += ["<h2>What this page is about</h2>", _render_statement_table(_describe_statement_origin(statement))]
    if sign:
        fields = (
            "One record is (a person, a visit, ...), and one person has at most this number of records",
            "Use, and who receives the release",
            "Epsilon and delta were decided by, because",
            "Organisation",
            "Name and role",
            "Place, date",
            "Signature",
        )
        sections.append(f'<div class="sign">{"".join(f"<div>{field}</div>" for field in fields)}</div>')
    return f'<div class="tightdp"><style>{STYLE}</style>\n' + "\n".join(sections) + "\n</div>"


def _list_stated_assumptions(statement: Statement) -> Iterable[str]:
    for name, how in statement.public.items():
        yield f"{name}: {how}"
    yield f"Arithmetic is {ARITHMETIC[statement.arithmetic]}"
    yield f"The noise was {NOISE[statement.seeded]}"
    yield f"Single records are protected: neighbouring data sets {RELATIONS[statement.neighbors]}"
    if statement.ledger is not None:
        yield "The ledger is the only one for this data, and everything released from the data was spent from it"


def _describe_charge_on_statement_page(statement: Statement) -> str:
    parts = statement.charged.parts
    more = (
        f" + {len(parts) - MOST_MECHANISMS:,} more, which the JSON text lists" if len(parts) > MOST_MECHANISMS else ""
    )
    return " + ".join(f"{mechanism!r} * {count}" for mechanism, count in parts[:MOST_MECHANISMS]) + more or "nothing"


def _describe_statement_origin(statement: Statement) -> dict[str, str]:
    """Returns the rows that say which release the page is about, and how to check the page and the release."""
    return _discard_missing_page_rows(
        {
            **{f"Setting: {name}": how for name, how in statement.settings.items()},
            "Parameters": statement.parameters,
            "Made": statement.date or None,
            "Library": f"tightdp {statement.version}",
            "Certificate": CERTIFIED if statement.certified else None,
            "To check": "tightdp verify FILE, where FILE is this page, the statement as JSON, or the model file",
        }
    )


def _discard_missing_page_rows(rows: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in rows.items() if value is not None}


def _state_power_on_page(statement: Statement) -> str:
    """Returns a sentence on the power of the best test at one rate of false accusations.

    The power follows from the trade-off curve of the charge. It may be smaller than the largest power that epsilon and
    delta allow. The text is empty if the power may be 100 %, or if the curve would take long to compute.
    """
    if "renyi" in statement.privacy.engine:
        return ""
    try:
        with Budget(UNITS):
            missed = float(
                statement.charged.tradeoff([FALSE_ACCUSATIONS / 100], neighbors=statement.neighbors).lower[0]
            )
    except ValueError:
        return ""
    found = format_stated_above(100 * (1 - missed), 3)
    return f" By all that was charged it is at most {found} %." if found != "100" else ""


def _render_statement_curves(statement: Statement) -> str:
    """Returns the privacy profile and the trade-off curve as figures.

    The text is empty if the curves cannot be computed, or would show no more than the bound.
    """
    # Computing curves from Renyi divergences would take half a minute.
    if "renyi" in statement.privacy.engine:
        return ""
    run, relation = statement.charged, statement.neighbors
    epsilons, alphas = (
        curves.choose_statement_epsilons(statement.privacy.upper),
        np.linspace(0.0, 1.0, curves.POINTS) ** 2,
    )
    try:
        with Budget(UNITS):
            profile = run.profile(epsilons, neighbors=relation)
            errors = run.tradeoff(alphas, neighbors=relation)
    except ValueError:
        return ""
    figures = (
        curves.draw_statement_profile(epsilons, profile, statement.privacy.upper, statement.delta),
        "delta at every epsilon. The band holds the truth, and the dot is the guarantee above.",
        curves.draw_statement_tradeoff(alphas, errors),
        "The least errors of any test of whether one record was there. The dashed line is that of guessing.",
    )
    return (
        f'<div class="curves"><figure>{figures[0]}<figcaption>{figures[1]}</figcaption></figure>'
        f"<figure>{figures[2]}<figcaption>{figures[3]}</figcaption></figure></div>"
    )


def _render_statement_table(rows: dict[str, str]) -> str:
    return (
        "<table>"
        + "".join(
            f"<tr><th>{encode_text_for_page(k)}</th><td>{encode_text_for_page(v)}</td></tr>" for k, v in rows.items()
        )
        + "</table>"
    )


def _render_statement_list(lines: Iterable[str], kind: str = "") -> str:
    return f'<ul class="{kind}">' + "".join(f"<li>{encode_text_for_page(line)}</li>" for line in lines) + "</ul>"


def encode_text_for_page(text: str) -> str:
    return escape(make_statement_line(text))
