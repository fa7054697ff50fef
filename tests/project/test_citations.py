"""What prose and comments cite of this repository is there: files by path, C++ and Python names."""

import ast
import fnmatch
import functools
import importlib
import re
from pathlib import Path
from types import ModuleType

import pages
import pytest

ROOT = pages.ROOT
PAGES = [*pages.PAGES, ROOT / "CHANGELOG.md"]
FOLDERS = "bench", "cmake", "cpp", "docs", "examples", "python", "tests", "tools"
SUFFIXES = "cmake", "cpp", "cu", "cuh", "hpp", "json", "kat", "md", "py", "pyi", "sha256", "svg", "toml", "yaml"
FILES = {
    str(path.relative_to(ROOT)): path
    for top in [*(ROOT / folder for folder in FOLDERS), ROOT]
    for path in (top.rglob("*") if top != ROOT else top.glob("*"))
    if path.is_file() and "__pycache__" not in path.parts
}
WORD = r"[\w.*{},-]+"
PATH = re.compile(rf"(?:{WORD}/)*{WORD}\.(?:{'|'.join(SUFFIXES)})|(?:{'|'.join(FOLDERS)})/(?:{WORD}/)*(?:{WORD})?")
PLACEHOLDERS = {"main.cpp", "tests/test_x.py"}
PRODUCTS = "bench/results/", "build/"
"""What benchmarks and builds write."""
ELSEWHERE = {"std::vector", "tightdp._cuda", "char-lstm-classification.py"}
"""Names that the C++ library defines, or a build for a device, and a file of Opacus."""


def spans(page: Path) -> list[str]:
    """The code spans of a page, each on one line."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]


@functools.cache
def found(path: str) -> list[Path]:
    """The files that a path names: from the root, or by their last parts; with * and {a,b} as in a shell."""
    braces = re.search(r"\{([^}]*)\}", path)
    if braces:
        options = [found(path.replace(braces[0], option)) for option in braces[1].split(",")]
        return [] if [] in options else [file for option in options for file in option]
    path = ("*" if path.startswith(".") else "") + path.rstrip("/")
    rooted = path.split("/")[0] in FOLDERS
    patterns = [path, path + "/*"] if rooted else [path, "*/" + path]
    return [file for name, file in FILES.items() if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]


@functools.cache
def source(kind: str) -> str:
    """All of our C++ with its targets, or of our Python."""
    suffixes = {"cpp": (".hpp", ".cpp", ".cuh", ".cu", ".cmake"), "python": (".py", ".pyi")}[kind]
    return "\n".join(path.read_text() for path in FILES.values() if path.suffix in suffixes)


def set_by(source: str) -> list[str]:
    """The attributes that a class sets on itself."""
    return re.findall(r"\bself\.(\w+)(?:: [^=]+)? =", source)


@functools.cache
def imported(module: str) -> ModuleType | None:
    """A module of ours; None if it needs another library that is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as lacking:
        if (lacking.name or "tightdp").split(".")[0] == "tightdp":
            raise
        return None


@functools.cache
def classes() -> dict[str, set[str] | None]:
    """The members of every class of the package, by its name; None if they cannot be known here."""
    members: dict[str, set[str] | None] = {}
    package = ROOT / "python"
    for path in (package / "tightdp").rglob("*.py"):
        lines = path.read_text().splitlines()
        nodes = [node for node in ast.parse("\n".join(lines)).body if isinstance(node, ast.ClassDef)]
        if nodes:
            module = imported(".".join(path.relative_to(package).with_suffix("").parts))
        for node in nodes:
            known = members.setdefault(node.name, set())
            if module is None or known is None:
                members[node.name] = None
                continue
            of = getattr(module, node.name)
            fields = {field for base in of.__mro__ for field in vars(base).get("__annotations__", {})}
            known.update(dir(of), fields, set_by("\n".join(lines[node.lineno - 1 : node.end_lineno])))
    return members


@pytest.mark.parametrize("page", PAGES, ids=pages.name_of)
def test_cited_files_exist(page):
    for span in spans(page):
        file, _, names = span.partition(": ")
        if PATH.fullmatch(file) and names:  # `file: what, of, it`
            texts = [path.read_text() for path in found(file)]
            for name in names.split(", "):
                assert any(re.search(rf"\b{re.escape(name)}\b", text) for text in texts), f"{file} has no {name}"
        for word in span.split() if not names else ():
            if PATH.fullmatch(word) and word not in PLACEHOLDERS:
                assert found(word) or found(f"cpp/include/{word}"), f"{word} is not there"


@pytest.mark.peers
@pytest.mark.parametrize("page", PAGES, ids=pages.name_of)
def test_cited_names_exist(page):
    for span in set(spans(page)) - ELSEWHERE:
        owner, _, member = span.partition("::")
        if re.fullmatch(r"\w+::\w+", span):
            defined = re.search(rf"\b(?:struct|class|namespace) {owner}\b", source("cpp"))
            assert defined and re.search(rf"\b{member}\b", source("cpp")), f"C++ has no {span}"
        name = span.split("(")[0]
        if re.fullmatch(r"(?:tightdp|dp)(?:\.\w+)+", name):
            assert stands_for_something(re.sub(r"^dp\.", "tightdp.", name)), f"Python has no {name}"
        elif re.fullmatch(r"[A-Z]\w+\.[a-z_]\w*", name):
            owner, member = name.split(".")
            members = classes().get(owner, set())
            assert members is None or member in members, f"Python has no {name}"


def stands_for_something(name: str) -> bool:
    """Whether a dotted name is that of a module, or of a member of one; and where its module needs what is not
    installed, as far as can be seen without it."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = imported(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        if found is None:
            return True
        for member in parts[end:]:
            if not hasattr(found, member):
                return False
            found = getattr(found, member)
        return True
    return False


SOURCES = sorted(name for name, path in FILES.items() if path.suffix in (".py", ".pyi", ".hpp", ".cpp", ".cuh", ".cu"))


def test_files_cited_in_sources_exist():
    """Paths from the root, in comments, docstrings and commands."""
    missing = [
        f"{name} cites {cited}"
        for name in SOURCES
        for cited in re.findall(
            rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./*-]*\w\.(?:{'|'.join(SUFFIXES)})\b", FILES[name].read_text()
        )
        if cited not in PLACEHOLDERS and not cited.startswith(PRODUCTS) and not found(cited)
    ]
    assert not missing


def prose(path: Path) -> str:
    """The comments of a source file, and the texts in three quotation marks of a Python file."""
    python = path.suffix in (".py", ".pyi")
    kinds = r'""".*?"""|#[^\n]*' if python else r"//[^\n]*|/\*.*?\*/"
    return "\n".join(re.findall(kinds, path.read_text(), re.DOTALL))


def test_comments_name_files_and_modules_that_exist():
    """Files by any last part of their paths, and dotted names of the package."""
    suffixes = "|".join(set(SUFFIXES) - {"json", "sha256", "svg"})  # programs write these
    missing = []
    for name in SOURCES:
        text = prose(FILES[name])
        words = set(re.findall(r"(?<![\w./-])[\w./*{},-]*\w", text)) - PLACEHOLDERS - ELSEWHERE
        files = [word for word in words if re.search(rf"\w\.(?:{suffixes})$", word)]
        dotted = set(re.findall(r"(?<![\w./-])tightdp(?:\.\w+)+(?![\w*])", text)) - ELSEWHERE
        missing += [f"{name} cites {file}" for file in files if not (found(file) or found(f"cpp/include/{file}"))]
        missing += [f"{name} cites {each}" for each in dotted if not stands_for_something(each)]
    assert not missing


@pytest.mark.parametrize("top", ["cpp/src", "python/tightdp"])
def test_the_architecture_names_every_folder_of_sources(top):
    """Each folder of the first level has a row, and each row is a folder of sources."""
    rows = set(re.findall(r"^\| `([\w/]+)` \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE))
    folders = {
        str(parent)
        for name in SOURCES
        if name.startswith(top + "/")
        for parent in Path(name).relative_to(top).parents
        if parent != Path()
    }
    assert {folder for folder in folders if "/" not in folder} <= rows
    elsewhere = {"cpp/src": "python/tightdp", "python/tightdp": "cpp/src"}[top]
    assert all(row in folders or (ROOT / elsewhere / row).is_dir() for row in rows)
