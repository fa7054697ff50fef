"""The words of a statement, and functions that write its numbers, rounded outward."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from ..options import Neighbors

RELATIONS: Mapping[Neighbors, str] = {
    "add_or_remove": "add or remove one record",
    "add": "add one record",
    "remove": "remove one record",
    "replace": "replace one record by another",
    "replace_special": "replace one record by one that contributes nothing, or the reverse",
}

ARITHMETIC: Mapping[str, str] = {
    "exact": "exact: sums of integers and exactly sampled noise; what is released is what is charged, to the last bit",
    "idealised gradients": "exact in sums and noise, and idealised in the gradients that are summed: what the "
    "roundings of one record's gradient owe to other records of its batch is left out",
    "idealised": "idealised: the guarantee is that of real numbers, and leaves out the roundings of released ones",
}

NOISE: Mapping[bool, str] = {
    False: "drawn from a generator that the operating system seeded",
    True: "reproducible from a seed, so that whoever knows the seed can subtract it",
}

CERTIFIED = "in this statement; tightdp.verify proves both ends of the bound by it, without the engines"
"""Words that say that a statement carries a certificate."""
MOST_LISTED = 20
"""Largest number of labels or bounds that a statement lists."""
FALSE_ACCUSATIONS = 1.0
"""Rate of false accusations at which the meaning of a guarantee is explained, in per cent of the people who are not in
the data."""
LARGEST_EXPLAINED = 700.0
"""Limit below which the meaning of an epsilon is explained. The exponential of the limit is still a finite double."""

NEVER_COVERED = (
    "What was computed from the same data before: a scaler, an encoder, a selection of features, bounds or categories "
    "read off the records.",
    "A choice among several fits by how well they do on the data: each fit is charged by itself, and the choice is "
    "not charged.",
    "Other releases from the same data: a second fit, plots, counts, the accuracy on the training data.",
    "People with several records: the guarantee is about one record.",
    "What the model says about people in general: it would say that without this person's record, too.",
)


CHARGE_NOTE = (
    "The guarantee follows from what was charged, and from nothing else. The charge lists every release, also those of "
    "counts, of choices and of what was learned from the records; k Gaussians of noise multiplier s may stand there as "
    "one of s / sqrt(k). Settings describe the algorithm, and a noise multiplier among them is that of one step."
)
"""Text that explains why the charge and the settings of a statement name different noise multipliers."""
OTHERS_CHOSE = (
    "What others chose, with delta at most 1e-7: 0.994 to 13.69 for models of a keyboard, for each user (Google "
    "Research, 2024); 17.14 for tables of the census of 2020, for each person (US Census Bureau, 2021); 34.9 for a "
    "month of reports on audiences, for each user (LinkedIn, 2020). For models, up to 1 is called strong, and up to "
    "10 reasonable (Ponomareva et al., How to DP-fy ML, 2023). Whether this epsilon is small enough depends on the "
    "harm that a disclosure would do; whoever signs decides."
)
"""Text on the epsilons of published releases, for the person who signs. docs/howto/ten-minutes.md gives the sources."""
AGAIN = "Another fit on the same data: the next one is charged as much again."
"""Line about repeated fits among the things that the bound of an estimator leaves out."""


def explain_statement_guarantee(epsilon: float, delta: float, neighbors: Neighbors) -> tuple[str, ...]:
    """Returns the meaning of (epsilon, delta) in two sentences, or no sentence.

    Both sentences follow from the definition: P(A) <= e^epsilon P'(A) + delta for each event A. Here P and P' are the
    distributions of the output on two neighbouring data sets. The first sentence is about any event A. The second
    sentence is about a test, and follows from two choices of A: that the test accuses, and that it does not.
    """
    # The second sentence needs the definition with P and P' in both orders. The relations "add" and "remove" give only
    # one order.
    if not epsilon < LARGEST_EXPLAINED or neighbors in ("add", "remove"):
        return ()
    factor = math.nextafter(math.exp(epsilon), math.inf)
    alpha, rate = FALSE_ACCUSATIONS / 100, f"{FALSE_ACCUSATIONS:g} %"
    found = min(alpha * factor + delta, 1 - (1 - delta - alpha) / factor, 1.0) * (1 + 1e-12)
    others = "with any other record in its place" if neighbors == "replace" else "without it"
    return (
        f"Whatever outcome one looks for was at most {format_stated_above(factor, 3)} times as likely with a person's "
        f"record as {others}, plus a probability of {format_stated_above(delta)}.",
        f"An attacker who knows every other record and wrongly accuses {rate} of absent people can identify at most "
        f"{format_stated_above(100 * found, 3)} % of those present; guessing identifies {rate}.",
    )


def format_stated_above(x: float, digits: int = 6) -> str:
    """Returns ``x`` as text with ``digits`` significant digits, rounded up."""
    return _round_stated_number(x, digits, ROUND_CEILING)


def format_stated_below(x: float) -> str:
    """Returns ``x`` as text with six significant digits, rounded down."""
    return _round_stated_number(x, 6, ROUND_FLOOR)


def _round_stated_number(x: float, digits: int, rounding: str) -> str:
    if not math.isfinite(x):
        return str(x)
    rounded = Context(prec=digits, rounding=rounding).create_decimal(Decimal(repr(float(x))))
    if not rounded:
        return "0"
    return f"{rounded.normalize():f}" if 1e-4 <= abs(x) < 1e15 else f"{rounded.normalize():e}"


RECORDS = "number of records"
"""Name of the public fact on the number of records. In a statement of several steps, the name of a step stands before
this name."""
_COUNTS = (
    re.compile(r"\bgiven: (\d[\d,]*?)(?=$|[,;] )"),
    re.compile(rf"(?:.*: )?the {RECORDS} with noise, (\d[\d,]*?)(?=$|, )"),
)
"""Patterns that find the number of records in the words of ``state_public_record_count`` and
``state_noisy_record_count``."""


def state_public_record_count(records: int) -> str:
    """Returns the text of the public fact on a number of records that was given."""
    return f"given: {records:,}"


def state_noisy_record_count(records: int) -> str:
    """Returns the line among the releases about a number of records that was released with noise."""
    return f"the {RECORDS} with noise, {records:,}"


def list_stated_record_counts(public: Mapping[str, str], released: Sequence[str]) -> list[int]:
    """Returns the numbers of records that the public facts and the releases of a statement name."""
    facts = [how for name, how in public.items() if name == RECORDS or name.endswith(f": {RECORDS}")]
    found = [each for how in facts for each in _COUNTS[0].findall(how)]
    found += [each[1] for line in released if (each := _COUNTS[1].match(line))]
    return [int(each.replace(",", "")) for each in found]


def format_stated_exactly(x: float) -> str:
    """Returns the shortest text that reads back as the same double. A whole number ends without ".0"."""
    return repr(float(x)).removesuffix(".0")


def make_statement_line(text: str) -> str:
    """Returns ``text`` with escapes for characters that do not print, such as ends of lines.

    Without escapes, a category with an end of line in it could look like a further line of the statement.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def list_stated_texts(texts: Sequence[str]) -> str:
    """Returns texts in one line, such that no two sequences of texts give the same line.

    Empty texts, and texts with a comma or a quotation mark, are quoted as in JSON. If there are too many texts to list,
    the line ends with the SHA-256 of the JSON list of all texts.
    """
    quoted = [json.dumps(text, ensure_ascii=False) if not text or set(text) & set(',"') else text for text in texts]
    whole = json.dumps(list(texts)).encode()
    digest = f" (sha256 {hashlib.sha256(whole).hexdigest()})" if len(texts) > MOST_LISTED else ""
    return list_stated_values(quoted) + digest


def list_stated_values(values: Sequence[str]) -> str:
    """Returns the first ``MOST_LISTED`` values in one line, and the number of the values that are left out."""
    more = f", and {len(values) - MOST_LISTED:,} more" if len(values) > MOST_LISTED else ""
    return ", ".join(values[:MOST_LISTED]) + more
