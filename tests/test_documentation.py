"""The examples in docstrings and in docs/ run as they stand, and what code cites of the theory is there."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import tightdp

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python"
MODULES = sorted(
    ".".join(source.relative_to(PACKAGE).with_suffix("").parts)
    for source in PACKAGE.rglob("*.py")
    if ">>> " in source.read_text()
)
PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md") if "```python" in page.read_text())


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    module = importlib.import_module(name)
    found = doctest.testmod(module, extraglobs={"dp": tightdp}, optionflags=doctest.FAIL_FAST)
    assert found.attempted > 0 and found.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page):
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(block, names)


def test_cited_theory_exists():
    """Code cites its proofs by page and section: both must be there."""
    cited = {}
    for folder, suffixes in (("python", ".py"), ("cpp", ".hpp .cpp .cuh .cu"), ("tests", ".py"), ("bench", ".py")):
        for source in (ROOT / folder).rglob("*"):
            if source.suffix not in suffixes.split():
                continue
            flat = re.sub(r"\s*\n\s*(//|#)?\s*", " ", source.read_text())
            for file, sections in re.findall(
                r"docs/theory/([\w-]+\.md)(?:,? sections? (\d[\d.]*(?:(?:, | and | to |, and )\d[\d.]*)*))?", flat
            ):
                cited.setdefault(file, {}).update({s.rstrip("."): source for s in re.findall(r"\d[\d.]*", sections)})
    assert len(cited) > 15
    for file, sections in cited.items():
        text = (ROOT / "docs" / "theory" / file).read_text()
        for section, source in sections.items():  # a heading, or the bold start of a paragraph
            assert re.search(rf"^(#+ |\*\*){re.escape(section)}[. ]", text, re.MULTILINE), (source.name, file, section)
