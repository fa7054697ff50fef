"""The examples in docstrings and on pages run as they stand, and what code cites of the theory is there."""

import doctest
import importlib
import re
from pathlib import Path

import pages
import pytest

import tightdp

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python"
MODULES = sorted(
    ".".join(source.relative_to(PACKAGE).with_suffix("").parts)
    for source in PACKAGE.rglob("*.py")
    if ">>> " in source.read_text()
)
KINDS = {"python", "bash", *pages.WITH}
RUNNING = {page: kinds for page in pages.PAGES if (kinds := {block.kind for block in pages.blocks(page)}) & KINDS}
SLOW = {
    f"docs/{name}.md" for name in ("audit", "howto/larger-than-memory", "howto/plots", "howto/tuning", "howto/verify")
}
"""Pages whose examples take seconds."""


OTHERS = {
    "tightdp.torch": "torch",
    "tightdp.adapters.opacus": "opacus",
    "tightdp.adapters.dp_accounting": "dp_accounting",
    "tightdp.adapters.jax_privacy": "dp_accounting",
    "tightdp.adapters.transformers": "transformers",
}
"""Libraries that the modules of a package import."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.peers] * (".adapters." in name)) for name in MODULES]
)
@pytest.mark.filterwarnings("ignore:Full backward hook")  # Opacus' hooks
def test_docstrings(name):
    for package, library in OTHERS.items():
        if name.startswith(package):
            pytest.importorskip(library, reason=f"needs {library}")
    module = importlib.import_module(name)
    found = doctest.testmod(module, extraglobs={"dp": tightdp}, optionflags=doctest.FAIL_FAST)
    assert found.attempted > 0 and found.failed == 0


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            marks=[pytest.mark.peers] * bool(kinds & pages.WITH) + [pytest.mark.slow] * (pages.name_of(page) in SLOW),
        )
        for page, kinds in RUNNING.items()
    ],
    ids=pages.name_of,
)
@pytest.mark.filterwarnings("ignore:Full backward hook")  # Opacus' hooks
def test_pages(page, tmp_path, monkeypatch):
    """Every example runs, in a folder of its own, and prints what the page says."""
    monkeypatch.chdir(tmp_path)
    said = pages.expected(page)
    for block, printed in pages.outputs(page):
        where = f"{pages.name_of(page)}, line {block.line}"
        assert pages.matches(said.get(block.line, printed), printed), f"{where}: printed\n{printed}"


def test_what_a_page_says_is_compared_to_the_letter():
    assert pages.matches("a ... c\n...\n", "a b c\nanything\n") and pages.matches("...\n", "")
    assert not pages.matches("a ... c\n", "a b d\n") and not pages.matches("a\n", "a\nb\n")
    assert not pages.matches("1.0\n", "120\n")


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
