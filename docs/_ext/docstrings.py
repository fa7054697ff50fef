"""Docstrings as Sphinx reads them.

Ours are plain text with ``literals``, sections as NumPy's, doctests and tables. Signs that mean something to
reStructuredText and nothing to us (``|g|``, ``2 * sigma``, ``coef_``) are escaped, "name : what it is" becomes an entry
of a list, and names of pages and of public objects become links.
"""

import re
from collections.abc import Iterator

import tightdp
import tightdp.audit
import tightdp.cuda
import tightdp.metrics
import tightdp.model_selection
import tightdp.pipeline
import tightdp.preprocessing
import tightdp.train

MODULES = (
    tightdp.cuda,
    tightdp.audit,
    tightdp.metrics,
    tightdp.model_selection,
    tightdp.pipeline,
    tightdp.preprocessing,
    tightdp.train,
    tightdp,
)

PUBLIC = {name: f"{module.__name__}.{name}" for module in MODULES for name in module.__all__}
FUNCTIONS = {"add_noise", "clip_and_noise", "clipped_sum", "exact_release", "coins"}
"""Those that are no names of parameters as well."""
ENTRY = re.compile(r"([\w(),.* ]{1,60}?) : (.*)")
PAGE = re.compile(r"docs/((?:(?:algorithms|howto|migrate|reference|theory|tutorials)/)?[\w-]+)\.md")


def rewritten(lines: list[str]) -> list[str]:
    """The docstring in reStructuredText."""
    found: list[str] = []
    section = False
    for block in _blocks(lines):
        first = block[0]
        if len(block) > 1 and re.fullmatch(r"-{3,}", block[1]):
            found += [f".. rubric:: {first}", ""]
            section, block = True, block[2:]
        if not block:
            continue
        if first.startswith((">>> ", "===", ":")) or first.startswith("    "):
            found += block
        elif (section or re.match(r"[a-z_]+(, [a-z_]+)* : ", first)) and ENTRY.match(block[0]):
            found += _entries(block)
        else:
            section = False
            found += _inline("\n".join(block)).split("\n")
        found.append("")
    return found


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Paragraphs, and literal blocks with the blank lines in them."""
    block: list[str] = []
    for line in lines:
        if line.strip():
            block.append(line.rstrip())
        elif block:
            yield block
            block = []
    if block:
        yield block


def _entries(block: list[str]) -> list[str]:
    """A definition list: names, and below each what it is."""
    found: list[str] = []
    text: list[str] = []
    for line in [*block, ""]:
        entry = ENTRY.match(line)
        if entry or not line:
            found += ["    " + part for part in _inline("\n".join(text)).split("\n")] if text else []
            text = []
        if entry:
            names = entry[1].split(", ") if "(" not in entry[1] else [entry[1]]
            found.append(", ".join(f"``{name}``" for name in names))
            text = [entry[2]]
        elif line:
            part = line.strip()
            if len(text) == 1 and (part[0].isupper() or part[0] == '"') and text[0][-1] not in ".,;:":
                text.append("")  # what it is, and then a sentence about it
            text.append(part)
    return found


def _inline(text: str) -> str:
    """One paragraph, with links and without accidental markup."""
    parts = re.split(r"(``.+?``)", text, flags=re.DOTALL)
    for i, part in enumerate(parts):
        if i % 2:
            name = part[2:-2]
            owner, _, member = name.partition(".")
            if owner in PUBLIC and (owner.lower() != owner or owner in FUNCTIONS):
                parts[i] = f":py:obj:`{name} <{PUBLIC[owner]}{'.' + member if member else ''}>`"
            continue
        part = re.sub(r"([\\*|`])", r"\\\1", part)
        part = re.sub(r"(?<=\w)_(?!\w)", r"\\_", part)
        parts[i] = PAGE.sub(lambda page: f":doc:`{page[0]} </{page[1]}>`", part)
    return "".join(parts)


def setup(app):
    def process(app, what, name, obj, options, lines):
        lines[:] = rewritten(lines)

    def shorten(app, what, name, obj, options, arguments, returns):
        return [text and re.sub(r"TypeAliasForwardRef\('([\w.]+)'\)", r"\1", text) for text in (arguments, returns)]

    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-process-signature", shorten)
    return {"parallel_read_safe": True}
