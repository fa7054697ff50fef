"""How Sphinx builds the site: ``python3 dev.py docs`` writes it to build/docs, and every warning is an error."""

import sys
from pathlib import Path

import tightdp

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "tightdp"
author = "the authors of tightdp"
copyright = author
version = release = tightdp.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "docstrings", "command_help", "first_epsilon", "formulas"]
exclude_patterns = ["_ext"]
root_doc = "index"
smartquotes = False  # a prime is no quotation mark, and -- begins an option

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_type_aliases = {
    **dict.fromkeys(("Array", "Integers", "Norms", "Scores", "Vector"), "array"),
    **{name: name.removeprefix("npt.") for name in ("ArrayLike", "npt.ArrayLike", "npt.DTypeLike", "Size", "Parts")},
}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 240
add_module_names = False

html_theme = "furo"
html_title = f"tightdp {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
# KaTeX, which typesets formulas; `dev.py docs` fetches it. Without it formulas stay the text that they are.
katex = Path(__file__).parents[1] / "build" / "katex"
if katex.is_dir():
    html_static_path.append(str(katex))
    html_css_files.insert(0, "katex/katex.min.css")
    html_js_files = ["katex/katex.min.js", "formulas.js"]
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}
