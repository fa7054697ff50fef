"""The examples in docstrings and in docs/accounting.md run as they stand."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import tightdp

ROOT = Path(__file__).parents[1]
MODULES = [
    "tightdp.accounting.accountant",
    "tightdp.accounting.batch",
    "tightdp.accounting.calibrate",
    "tightdp.accounting.filters",
    "tightdp.cli.expression",
]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    module = importlib.import_module(name)
    found = doctest.testmod(module, extraglobs={"dp": tightdp}, optionflags=doctest.FAIL_FAST)
    assert found.attempted > 0 and found.failed == 0


def test_the_page_on_bounds():
    text = (ROOT / "docs" / "accounting.md").read_text()
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, {})


def test_cited_theory_exists():
    """Code cites its proofs as docs/theory/FILE.md section N: both must be there."""
    cited = set()
    for source in ROOT.glob("python/tightdp/accounting/**/*.py"):
        flat = re.sub(r"\s*\n\s*(//|#)?\s*", " ", source.read_text())
        cited |= set(re.findall(r"docs/theory/([\w-]+\.md)(?:,? sections? (\d+))?", flat))
    assert len(cited) > 10
    for file, section in sorted(cited):
        path = ROOT / "docs" / "theory" / file
        assert path.exists(), file
        assert not section or re.search(rf"^##+ {section}[. ]", path.read_text(), re.MULTILINE), (file, section)
