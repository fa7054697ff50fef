"""Links to the page that explains epsilon, from the first epsilon of each page that has no such link."""

import re

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

EXPLAINED = "howto/ten-minutes"
"""The page that explains epsilon."""
WITHOUT = "theory/", "reference/", EXPLAINED
"""Beginnings of the names of pages that get no link: their readers know epsilon."""
OTHERS = nodes.reference, nodes.title, nodes.literal, nodes.literal_block, nodes.caption, nodes.raw
"""Nodes whose words are no place for a link."""


class LinkFirstEpsilon(SphinxPostTransform):
    """Turns the first word "epsilon" of a page's prose into a link."""

    default_priority = 300
    """Runs before formulas become nodes of their own, which is at 400."""
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        name = self.env.docname
        links = [link.get("refuri", "") for link in self.document.findall(nodes.reference)]
        if name.startswith(WITHOUT) or any("ten-minutes.html" in link for link in links):
            return
        for text in self.document.findall(nodes.Text):
            found = re.search(r"\bepsilon\b", text)
            if found and not any(isinstance(node, OTHERS) for node in _list_ancestors(text)):
                address = self.app.builder.get_relative_uri(name, EXPLAINED)
                link = nodes.reference("", found[0], internal=True, refuri=address)
                pieces = [nodes.Text(text[: found.start()]), link, nodes.Text(text[found.end() :])]
                text.parent.replace(text, [piece for piece in pieces if piece.astext()])
                return


def _list_ancestors(node: nodes.Node) -> list[nodes.Node]:
    """Returns the nodes that hold a node, from the inside out."""
    found = []
    while node.parent is not None:
        node = node.parent
        found.append(node)
    return found


def setup(app: object) -> dict[str, bool]:
    app.add_post_transform(LinkFirstEpsilon)
    return {"parallel_read_safe": True}
