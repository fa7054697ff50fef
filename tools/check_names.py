"""Counts, room by room, names and sentences that have to be read twice, and holds each count to its limit.

    python3 tools/check_names.py                        # fails if a count is above its limit (`dev.py lint` runs this)
    python3 tools/check_names.py --list fragments gate  # the places that are counted, in rooms whose path has "gate"
    python3 tools/check_names.py --lower                # writes today's counts as limits, unless a total has risen

A room is a folder of the package or of the C++ sources. The word lists are in docs/glossary.md. The lengths of the
lists are counts too, so a list may only become shorter. When files move to another room, ``--lower`` moves the limits
with them.
"""

import argparse
import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
GLOSSARY = ROOT / "docs" / "glossary.md"
LIMITS = ROOT / "tools" / "name_limits.json"
CPP_SUFFIXES = ".cpp", ".hpp", ".h", ".cu", ".cuh"

LONG = 10
"""Number of lines of the shortest function that needs a docstring."""

KINDS = {
    "one-word names": "a function's name is one word, which the glossary does not allow; a property may have one",
    "odd names": "a function's name has no verb of the glossary and no term of its tables",
    "replaced words": "a name holds a word that the glossary's tables replace by another",
    "fragments": "a docstring or comment begins with a word that hides its subject",
    "no docstring": f"a function of {LONG} lines or more has no docstring",
    "glossary": "a list of the glossary may not grow",
}


class Words(NamedTuple):
    """The glossary's lists."""

    nouns: set[str]
    replaced: set[str]
    verbs: set[str]
    one_word: set[str]
    openers: set[str]


class Finding(NamedTuple):
    """A place that counts against the limit of its room."""

    room: str
    kind: str
    place: str


def read_glossary(text: str) -> Words:
    """Reads the tables and the three lists of the glossary."""
    nouns, replaced = set(), set()
    for term, aside in re.findall(r"^\| (?!Term|-)(.+?) \|.*\|(.*)\|$", text, re.MULTILINE):
        nouns |= {re.findall(r"[a-z]+", alias.lower())[-1] for alias in term.split(",")}
        replaced |= set(re.findall(r"`(\w+)`", aside))

    def list_below(heading: str) -> set[str]:
        (listed,) = re.findall(rf"^## {heading}\n\n.*?\n\n(.*?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
        return set(re.findall(r"\w+", listed))

    lists = map(list_below, ("Verbs", "Names of one word", "Words that begin no sentence"))
    return Words(nouns, replaced, *lists)


def split_name(name: str) -> list[str]:
    """Returns the words of a name with underscores or capitals, in lower case."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]


def is_odd(name: str, words: Words, is_property: bool) -> bool:
    """Tells whether a name says neither what is done nor which of the field's terms is returned."""
    parts = split_name(name)
    if parts[0] in words.verbs or (len(parts) == 1 and parts[0] in words.one_word):
        return False
    ends = {parts[0], parts[0].removesuffix("s"), parts[-1], parts[-1].removesuffix("s")}
    return parts[0] in words.openers or not (is_property or ends & words.nouns)


def check_name(node: ast.AST, words: Words) -> Iterator[str]:
    """Yields the kinds of findings in the definition of a function or class."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__"):
        parts = split_name(node.name)
        if words.replaced.intersection(parts):
            yield "replaced words"
        if isinstance(node, ast.ClassDef) or not parts:
            return
        is_property = any("property" in ast.unparse(one) for one in node.decorator_list)
        if len(parts) == 1 and parts[0] not in words.one_word and not is_property:
            yield "one-word names"
        if is_odd(node.name, words, is_property):
            yield "odd names"
        if ast.get_docstring(node) is None and node.end_lineno - node.lineno + 1 >= LONG:
            yield "no docstring"


def read_comments(source: str, mark: str) -> Iterator[tuple[int, str]]:
    """Yields the line number and the first line of each comment. Only comments on lines of their own are read.

    Adjacent lines are one comment.
    """
    inside = False
    for number, line in enumerate(source.splitlines(), 1):
        comment = re.match(rf"\s*{mark}[:/]?\s?(.*)", line)
        if comment and not inside:
            yield number, comment[1]
        inside = bool(comment)


def check_python(source: str, words: Words) -> Iterator[tuple[str, int, str]]:
    """Yields the kind, line and text of each finding in a Python file."""
    sentences = list(read_comments(source, "#"))
    for node in ast.walk(ast.parse(source)):
        for kind in check_name(node, words):
            yield kind, node.lineno, node.name
        # A string that is a statement of its own is a docstring. Constants and attributes have such strings too.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            sentences.append((node.lineno, node.value.value))
    yield from find_fragments(sentences, words.openers)


def find_fragments(sentences: Iterable[tuple[int, str]], openers: set[str]) -> Iterator[tuple[str, int, str]]:
    """Yields the sentences whose first word has a capital and is one of ``openers``."""
    for line, text in sentences:
        first = re.match(r"\s*([A-Z][a-z]*)\b", text)
        if first and first[1].lower() in openers:
            yield "fragments", line, " ".join(text.split())[:80]


def find_all(root: Path, words: Words) -> Iterator[Finding]:
    """Yields every finding in the package and in the C++ sources."""
    for path in sorted([*(root / "python").rglob("*.py"), *(root / "cpp").rglob("*.*")]):
        if path.suffix == ".py":
            found = check_python(path.read_text(encoding="utf-8"), words)
        elif path.suffix in CPP_SUFFIXES:
            found = find_fragments(read_comments(path.read_text(encoding="utf-8"), "//"), words.openers)
        else:
            continue
        parts = path.relative_to(root).parts
        room = "/".join(parts[: 3 if len(parts) > 3 else 2])
        yield from (Finding(room, kind, f"{path.relative_to(root)}:{line}: {text}") for kind, line, text in found)
    for name in ("verbs", "one_word"):
        for word in sorted(getattr(words, name)):
            yield Finding(f"docs/glossary.md ({name})", "glossary", word)


def compare(counts: dict[str, dict[str, int]], limits: dict[str, dict[str, int]]) -> tuple[list[str], list[str]]:
    """Returns a line for each count above its limit, and one for each limit above its count."""
    above, below = [], []
    for room in sorted({*counts, *limits}):
        for kind, meaning in KINDS.items():
            now, limit = (table.get(room, {}).get(kind, 0) for table in (counts, limits))
            if now > limit:
                above.append(f"{room}: {kind} went from {limit} to {now} ({meaning})")
            elif now < limit:
                below.append(f"{room}: {kind} went from {limit} to {now}")
    return above, below


def count_kinds(findings: list[Finding]) -> dict[str, dict[str, int]]:
    """Counts the findings of each room and kind."""
    rooms = sorted({one.room for one in findings})
    return {room: dict(sorted(Counter(one.kind for one in findings if one.room == room).items())) for room in rooms}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", choices=KINDS, help="print the places of this kind")
    parser.add_argument("--lower", action="store_true", help="write today's counts as limits")
    parser.add_argument("rooms", nargs="*", help="with --list: parts of the paths of rooms")
    options = parser.parse_args()
    findings = list(find_all(ROOT, read_glossary(GLOSSARY.read_text(encoding="utf-8"))))
    if options.list:
        shown = [one for one in findings if one.kind == options.list]
        print(*(one.place for one in shown if not options.rooms or any(r in one.room for r in options.rooms)), sep="\n")
        return 0
    counts, limits = count_kinds(findings), json.loads(LIMITS.read_text())
    if options.lower:
        before, after = (sum(map(Counter, table.values()), Counter()) for table in (limits, counts))
        if not after <= before:
            sys.exit(f"The limits stay as they are, because totals have risen: {dict(after - before)}")
        rows = [f" {json.dumps(room)}: {json.dumps(numbers)}" for room, numbers in counts.items()]
        LIMITS.write_text("{\n" + ",\n".join(rows) + "\n}\n")
        return 0
    above, below = compare(counts, limits)
    if above:
        print("Names or sentences have become worse:", *above, sep="\n  ")
        print("To see the places: python3 tools/check_names.py --list 'KIND' ROOM")
    if below:
        print("Names or sentences have become better:", *below, sep="\n  ")
        print("Please lower the limits: python3 tools/check_names.py --lower")
    return bool(above)


if __name__ == "__main__":
    sys.exit(main())
