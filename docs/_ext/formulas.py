"""Formulas of the proof pages, typeset by KaTeX.

Pages under theory/ and algorithms/ write formulas as plain text, ``M(z) = prod_j M_j(z)^{k_j} <= e^eps``, which reads
well in the sources. ``formula_text.py`` translates it to TeX. In the page a formula is its source text, and
``formulas.js`` typesets it where KaTeX is there.
"""

from __future__ import annotations

import html

from docutils import nodes
from formula_text import is_formula_in_code, split_prose, translate_formula, translate_lines
from sphinx.transforms.post_transforms import SphinxPostTransform

FOLDERS = "theory/", "algorithms/"


class formula(nodes.Inline, nodes.TextElement):
    """A formula within a line."""


class formula_block(nodes.General, nodes.Element):
    """Formulas on lines of their own."""


class TypesetFormulas(SphinxPostTransform):
    """Turns the formulas of proof pages into nodes of their own."""

    default_priority = 400
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        if not self.env.docname.startswith(FOLDERS):
            return
        for block in list(self.document.findall(nodes.literal_block)):
            if block.get("language", "none") in ("none", "default", "text") and not block.get("force_text"):
                lines = translate_lines(block.astext())
                if lines is not None:
                    block.replace_self(formula_block(lines=lines))
        for span in list(self.document.findall(nodes.literal)):
            text = span.astext()
            tex = translate_formula(text, strict=True) if is_formula_in_code(text) else None
            if tex is not None:
                span.replace_self(formula(text, text, tex=tex))
        for paragraph in self.document.findall(lambda node: isinstance(node, (nodes.paragraph, nodes.emphasis))):
            _join_texts(paragraph)
        for text in list(self.document.findall(nodes.Text)):
            if isinstance(text.parent, (nodes.paragraph, nodes.emphasis)) and not isinstance(text.parent, formula):
                self._split_text(text)

    def _split_text(self, text: nodes.Text) -> None:
        pieces = split_prose(text.astext())
        if any(math for math, _ in pieces):
            made = [
                formula(piece, piece, tex=translate_formula(piece, strict=True)) if math else nodes.Text(piece)
                for math, piece in pieces
            ]
            text.parent.replace(text, made)


def _join_texts(parent: nodes.Element) -> None:
    """Joins neighbouring texts: the parser makes one for each line, and a formula may stand on two."""
    joined: list[nodes.Node] = []
    for child in parent.children:
        if joined and isinstance(child, nodes.Text) and isinstance(joined[-1], nodes.Text):
            joined[-1] = nodes.Text(joined[-1].astext() + child.astext())
        else:
            joined.append(child)
    parent.children = []
    parent.extend(joined)


def _visit_formula(self, node: formula) -> None:
    self.body.append(f'<span class="formula" data-tex="{html.escape(node["tex"])}">')


def _depart_formula(self, node: formula) -> None:
    self.body.append("</span>")


def _visit_block(self, node: formula_block) -> None:
    self.body.append('<div class="formulas">')
    for source, tex, number in node["lines"]:
        if not tex:
            continue
        label = f'<span class="number">({html.escape(number)})</span>' if number else ""
        self.body.append(f'<div>{label}<span class="formula" data-display data-tex="{html.escape(tex)}">'
                         f"{html.escape(source)}</span></div>")  # fmt: skip
    self.body.append("</div>")
    raise nodes.SkipNode


def setup(app):
    app.add_node(formula, html=(_visit_formula, _depart_formula))
    app.add_node(formula_block, html=(_visit_block, None))
    app.add_post_transform(TypesetFormulas)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
