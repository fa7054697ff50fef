"""``{command-help} epsilon``: what ``tightdp epsilon --help`` prints, taken from the parser itself."""

import os

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from tightdp.cli import build_command_parser


class CommandHelp(SphinxDirective):
    required_arguments = 1

    def run(self):
        os.environ["COLUMNS"] = "96"
        command = self.arguments[0]
        parser = build_command_parser(command)
        (commands,) = (action for action in parser._actions if hasattr(action, "choices") and action.choices)
        text = commands.choices[command].format_help()
        block = nodes.literal_block(text, text, language="text")
        return [block]


def setup(app):
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True}
