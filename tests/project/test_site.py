"""The site's sources are well-formed, with or without Sphinx at hand."""

import importlib
import re
from pathlib import Path

import pages
import pytest

DOCS = pages.DOCS
PROOFS = DOCS / "theory", DOCS / "algorithms"
WRITTEN = [*pages.PAGES, pages.ROOT / "CHANGELOG.md"]
SOURCES = [
    path
    for folder in ("bench", "cmake", "cpp", "examples", "python", "tests", "tools")
    for path in sorted((pages.ROOT / folder).rglob("*"))
    if path.suffix in (".cmake", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".py", ".pyi")
]
MODULES = (
    "tightdp",
    "tightdp.train",
    "tightdp.preprocessing",
    "tightdp.pipeline",
    "tightdp.model_selection",
    "tightdp.metrics",
    "tightdp.audit",
    "tightdp.cuda",
)


def directives(page: Path, name: str) -> list[str]:
    return re.findall(rf"^```{{{name}}}[^\n]*\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def listed(page: Path) -> set[Path]:
    """The pages in a page's tables of contents."""
    found = set()
    for body in directives(page, "toctree"):
        for entry in body.splitlines():
            if entry and not entry.startswith(":"):
                target = re.sub(r".*<(.*)>", r"\1", entry)
                hits = {path.resolve() for path in page.parent.glob(target + ".md")}
                assert hits, f"{page.name} lists {entry}"
                found |= hits
    return found


def test_every_page_is_in_a_table_of_contents():
    reached, todo = set(), [DOCS / "index.md"]
    while todo:
        page = todo.pop()
        reached.add(page)
        todo.extend(listed(page) - reached)
    assert reached == set(DOCS.rglob("*.md"))


def slug(heading: str) -> str:
    """The anchor that GitHub and MyST give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", sorted((DOCS / "theory").glob("*.md")), ids=pages.name_of)
def test_proofs_open_with_their_theorem_and_name_code_and_tests(page):
    """The order of a page: the theorem in words, the code that uses it and the tests that hold it, then the proof."""
    title, words, opening = page.read_text().split("\n## ")[0].split("\n\n", 2)
    assert title.startswith("# ") and words.startswith("**In words.** ")
    assert re.search(r"\bCode:\s.*\bTests?:\s+`(tests|cpp/tests)/", opening, re.DOTALL)
    for named in re.findall(r"`((?:cpp|docs|python|tests|tools)/[\w./-]+)`", opening):
        assert (pages.ROOT / named).exists(), named


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name_of)
def test_links_to_sections_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        text = (page.parent / target if target else page).read_text()
        assert anchor in {slug(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}, (target, anchor)


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_holds_each_public_name_once(module):
    text = "\n".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    directive = rf"^\.\. auto(?:class|function|exception):: {re.escape(module)}\.(\w+)$"
    documented = re.findall(directive, text, re.MULTILINE)
    public = importlib.import_module(module).__all__
    assert sorted(documented) == sorted(name for name in public if not name.startswith("__"))


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name_of)
def test_every_block_says_what_it_is(page):
    """So that no example escapes the tests by its label."""
    assert page.read_text().count("\n```") % 2 == 0
    formulas = {""} if page.parent in PROOFS else set()
    for block in pages.blocks(page):
        assert block.kind in pages.KINDS | formulas, (block.kind, block.line)


@pytest.mark.parametrize("page", WRITTEN, ids=pages.name_of)
def test_lines_fit(page):
    """A row of a table cannot be broken; code and prose can."""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        assert len(line) <= 120 or re.fullmatch(r"\|.*\|", line), f"line {number} has {len(line)} characters"


def test_lines_of_sources_fit():
    """A hint to another program, such as ``# noqa``, may stand beyond."""
    hint = re.compile(r"  # (?:noqa|type:|fmt:).*| *// NOLINT.*")
    long = [
        f"{path.relative_to(pages.ROOT)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(hint.sub("", line)) > 120
    ]
    assert not long


def test_the_older_library_has_every_range_algorithm():
    """emscripten's C++ library lacks the algorithms of ranges, and a page without its calculator looks whole."""
    used = {
        name
        for folder in ("src", "include", "capi")
        for path in (pages.ROOT / "cpp" / folder).rglob("*.[ch]pp")
        for name in re.findall(r"std::(?:ranges|views)::(\w+)", path.read_text())
    }
    given = (pages.ROOT / "cpp/compatibility/older_libcxx.hpp").read_text().split("namespace ranges", 1)[1]
    assert used - {"greater", "less"} <= set(re.findall(r"^\w+ (\w+)\(", given, re.MULTILINE))


def test_the_site_asks_the_network_for_nothing():
    """Fonts, scripts and figures are all of the site's own."""
    for source in [*DOCS.rglob("*.svg"), *DOCS.rglob("*.css"), DOCS / "conf.py"]:
        text = source.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http" not in text and "@import" not in text, source.name


@pytest.mark.parametrize("figure", sorted(DOCS.rglob("*.svg")), ids=lambda path: path.name)
def test_figures_are_well_formed_and_described(figure):
    from xml.etree import ElementTree

    root = ElementTree.parse(figure).getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title") is not None and root.find(f"{space}desc") is not None


@pytest.mark.parametrize("page", WRITTEN, ids=pages.name_of)
def test_no_formula_is_taken_for_markup(page):
    """Emphasis is written with stars, for an underscore between signs, as in (1 - x)_+, would vanish with what follows.
    And no line of a paragraph begins with a sign that opens a list or a quotation."""
    markdown = pytest.importorskip("markdown_it", reason="needs markdown-it-py").MarkdownIt().enable("table")
    lines, depth = page.read_text().splitlines(), 0
    for block in markdown.parse("\n".join(lines)):
        where = f"line {block.map[0] + 1}" if block.map else ""
        if block.type == "inline":
            opened = [part for part in block.children if part.nesting == 1 and part.markup in ("_", "__")]
            assert not opened, f"{where}: put the formula between backticks"
        if block.type in ("bullet_list_open", "ordered_list_open", "blockquote_open"):
            before = lines[block.map[0] - 1] if block.map[0] else ""
            assert depth or not before.strip() or before.startswith("#"), f"{where}: break the line elsewhere"
        depth += block.nesting if "list" in block.type or "quote" in block.type else 0
