"""The pages of the documentation, and how their examples run.

```python        runs; all blocks of a page share one namespace
```python cuda   runs where there is a CUDA device, and what it imports
```bash          each line is a ``tightdp`` command, and runs as the shell would run it
```text          what the block above it prints; "..." stands for whatever is there, as in doctests
```c, ```cpp, ```cmake  files of the programs that tests/project/test_headers.py builds
```python with NAME  runs where the library NAME is installed
```python NAME   code of another library, which is not run
```sh            set-up, which is not run
"""

import contextlib
import importlib.util
import io
import re
import shlex
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from tightdp import cli, cuda

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")])
OTHERS = {f"python {name}" for name in ("opacus", "dp_accounting", "prv_accountant", "autodp")}
"""Code beside ours on the pages for those who come from there."""
APART = {"jax_privacy"}
"""Libraries whose threads outlive a test: a test that runs in a process of its own names them."""
OF_OTHERS = (
    "dask", "dp_accounting", "opacus", "peft", "prv_accountant", "pyarrow", "riskcal", "torch", "transformers", *APART
)  # fmt: skip
WITH = {f"python with {name}" for name in OF_OTHERS}
KINDS = {"python", "python cuda", "bash", "text", "c", "cpp", "cmake", "sh", *OTHERS, *WITH}


class Block(NamedTuple):
    kind: str
    body: str
    line: int


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page but for Sphinx's directives, with the line that each starts on."""
    text = page.read_text()
    found = re.finditer(r"^```([^\n`]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(f[1].strip(), f[2], text[: f.start()].count("\n") + 2) for f in found if not f[1].startswith("{")]


def installed(kind: str, apart: Collection[str]) -> bool:
    """Whether a block ``python with NAME`` runs here."""
    name = kind.removeprefix("python with ")
    return kind in WITH and (name not in APART or name in apart) and importlib.util.find_spec(name) is not None


def outputs(page: Path, apart: Collection[str] = ()) -> list[tuple[Block, str]]:
    """Runs a page: every block that runs, with what it printed."""
    names: dict[str, object] = {"__name__": page.stem}
    found = []
    for block in blocks(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            run = block.kind == "python" or installed(block.kind, apart)
            if run or (block.kind == "python cuda" and cuda.devices()):
                optional = ImportError if block.kind == "python cuda" else ()  # torch and CuPy are no part of tests
                with contextlib.suppress(optional):
                    exec(compile("\n" * (block.line - 1) + block.body, name_of(page), "exec"), names)
            elif block.kind == "bash":
                for line in block.body.replace("\\\n", " ").splitlines():
                    program, *arguments = shlex.split(line)
                    assert program == "tightdp", f"{name_of(page)}: only tightdp commands run here, got {line!r}"
                    assert cli.main(arguments) == 0, f"{name_of(page)}: failed: {line}"
            else:
                continue
        found.append((block, printed.getvalue()))
    return found


def expected(page: Path) -> dict[int, str]:
    """What the page says that its blocks print, by the line that a block starts on."""
    found = {}
    previous = None
    for block in blocks(page):
        if block.kind == "text" and previous is not None and previous.kind in ("python", "bash", "c", "cpp", *WITH):
            found[previous.line] = block.body
        previous = block
    return found


def matches(said: str, printed: str) -> bool:
    """Whether the block printed what the page says."""
    lines = [
        r"(?:.*\n)*" if line == "..." else re.escape(line).replace(re.escape("..."), ".*") + r"\n"
        for line in said.splitlines()
    ]
    return re.fullmatch("".join(lines), printed) is not None
