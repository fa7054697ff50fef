"""Formulas of proof pages are typeset as they are written: translating to TeX moves and drops nothing."""

import importlib.util
import re

import pages
import pytest

PROOFS = [page for page in pages.PAGES if page.parent.name in ("theory", "algorithms")]
LEFT_AS_TEXT = 6
"""Number of blocks on all pages that are not surely formulas, such as one with a call of a class in it."""
READ_BACK = {
    "varepsilon": "eps", "varphi": "phi", "infty": "inf", "vert": "|", "le": "<=", "ge": ">=", "lt": "<", "gt": ">",
    "ne": "!=", "to": "->", "Rightarrow": "=>", "leftrightarrow": "<->", "ll": "<<", "gg": ">>", "pm": "+-",
    "dots": "...", "sim": "~", "qquad": "", "bar": "", "allowbreak": "", "tilde": "", "hat": ""}  # fmt: skip
"""What TeX's commands stand for, where that is not their own name."""


def load_translator():
    spec = importlib.util.spec_from_file_location("formula_text", pages.DOCS / "_ext" / "formula_text.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


formulas = load_translator()


def list_blocks(page):
    """The indented blocks of a page, without their indent."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for found in re.finditer(r"(?<=\n\n)(?: {4}.*\n|\n(?= {4}))+", text):
        yield re.sub("^ {4}", "", found[0].rstrip("\n"), flags=re.MULTILINE)


def list_formulas(page):
    """Every formula of a page beside its TeX: from blocks, code spans and prose."""
    for block in list_blocks(page):
        for source, tex, number in formulas.translate_lines(block) or ():
            yield source.removesuffix(f"({number})") if number else source, tex
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for span in re.findall(r"`([^`]+)`", text):
        tex = formulas.translate_formula(span, strict=True) if formulas.is_formula_in_code(span) else None
        if tex:
            yield span, tex
    for paragraph in re.split(r"\n\n+", re.sub(r"`[^`]*`", "", text)):
        if not paragraph.startswith(("#", "|", "    ")):
            for math, piece in formulas.split_prose(paragraph):
                if math:
                    yield piece, formulas.translate_formula(piece, strict=True)


def read_back(tex):
    """The signs of a formula in TeX, in order, without spaces and braces."""
    tex = re.sub(r"\\(?:text|mathrm|operatorname)\{([^}]*)\}", r"\1", tex).replace("\\,", "").replace("\\%", "%")
    tex = re.sub(r"\\([A-Za-z]+)", lambda found: READ_BACK.get(found[1], found[1]), tex)
    return re.sub(r"[\s{}()\\~^]", "", tex)


def plain(source):
    source = re.sub(r"\bepsilon\b|(?<![A-Za-z])epsilon(?![A-Za-z])", "eps", source).replace("gbar", "g")
    return re.sub(r"[\s{}()\\~^]", "", source)


@pytest.mark.parametrize("page", PROOFS, ids=pages.name_of)
def test_translating_moves_and_drops_nothing(page):
    for source, tex in list_formulas(page):
        assert read_back(tex) == plain(source), (source, tex)


def test_nearly_all_blocks_are_typeset():
    blocks = [block for page in PROOFS for block in list_blocks(page)]
    left = [block for block in blocks if formulas.translate_lines(block) is None]
    assert len(blocks) > 100 and len(left) <= LEFT_AS_TEXT, left


def test_code_and_words_are_left_alone():
    for code in ("Planner::choose_period", "cpp/src/contour", "noise_multiplier", "engine.py", "auto"):
        assert not formulas.is_formula_in_code(code) or formulas.translate_formula(code, strict=True) is None, code
    for words in ("A record is in a sample, and I do not know which.", "section 2 and 3.", "(1) and (2)", "delta"):
        assert not any(math for math, _ in formulas.split_prose(words)), words


@pytest.mark.parametrize(
    ("source", "tex"),
    [
        ("x_i^2 <= e^-53", "x_{i}^{2} \\le  e^{-53}"),
        ("(1 - e^{eps - Y})_+", "(1 - e^{\\varepsilon  - Y})_{+}"),
        ("c + is", "c + is"),
        ("sup over x in [0, inf)", "\\sup \\text{ over }\\allowbreak x \\in  [0,\\allowbreak \\infty )"),
        ("g~ = 1", "\\tilde{g} = 1"),
    ],
)
def test_translations(source, tex):
    assert formulas.translate_formula(source).replace("  ", " ") == tex.replace("  ", " ")


@pytest.mark.parametrize("page", sorted((pages.DOCS / "theory").glob("*.md")), ids=pages.name_of)
def test_proof_pages_open_with_their_theorem_in_words(page):
    assert page.read_text().split("\n\n")[1].startswith("**In words.** ")
