"""Paths that lead to a folder, a pipe, a device, too large a file or none: whatever reads one refuses it, and waits for
nothing."""

import ast
import os
from pathlib import Path

import pytest

import tightdp as dp
from tightdp._support.files import check_regular_file, open_regular_file, read_file_bytes, read_file_text
from tightdp.cli import main
from tightdp.records.schema import Schema
from tightdp.records.sources.rows import Rows
from tightdp.statement.parameters import hash_safetensors_for_statement, hash_statement_torch_file

PACKAGE = Path(dp.__file__).parent
OPENERS = {"open", "read_text", "read_bytes", "fdopen", "memmap", "load"}
"""Names of functions and methods that open a file to be read, ``json.load`` and ``torch.load`` among them."""
OWN = ("torch.load(file,", "torch.load(BytesIO(", "os.open(", "arrow.OSFile")
"""Beginnings of calls that read an open file or no file, write, or come after ``check_regular_file``."""
READERS = {
    "model": dp.load,
    "rows": Rows.read,
    "schema": Schema.read,
    "safetensors": hash_safetensors_for_statement,
    "torch": hash_statement_torch_file,
    "columns": lambda path: dp.train.FileBlocks(path, label="y", format="csv"),
    "ledger": dp.Ledger,
}
WRITERS = {
    "cli/table_commands/predict.py",
    "cli/accounting_commands/sweep.py",
    "cli/main.py",
    "cli/command_files.py",
}
"""Modules that open what they write to, or the null device."""


@pytest.fixture(params=["folder", "pipe", "device", "link to a pipe"])
def place(tmp_path, request):
    path = tmp_path / "it"
    if request.param == "device":
        return Path("/dev/zero")
    if request.param == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    if request.param == "link to a pipe":
        (tmp_path / "link").symlink_to(path)
        return tmp_path / "link"
    return path


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes among files")
@pytest.mark.parametrize("name", READERS)
def test_readers_refuse_what_is_no_file(place, name):
    if name in ("columns", "torch"):
        pytest.importorskip({"columns": "pyarrow", "torch": "torch"}[name])
    with pytest.raises((ValueError, OSError), match=r"must be|paths must|^/"):
        READERS[name](place)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes among files")
@pytest.mark.parametrize(
    "command",
    [["verify", "{}"], ["statement", "{}"], ["predict", "{}", "{}"], ["verify", __file__, "--model", "{}"],
     ["train", "{}", "--label", "y", "--bounds", "x=0:1", "--classes", "a,b", "--epsilon", "1", "--delta", "1e-5"],
     ["schema", "{}", "--label", "y"], ["ledger", "report", "{}"]],
)  # fmt: skip
def test_commands_refuse_what_is_no_file(place, capsys, command):
    with pytest.raises(SystemExit) as seen:
        raise SystemExit(main([part.format(place) for part in command]))
    assert seen.value.code in (1, 2) and "Traceback" not in capsys.readouterr().err


def test_paths_that_no_file_can_have():
    for name in ("a\0b", "\ud800"):
        with pytest.raises(ValueError, match="must be the path of a file"):
            open_regular_file(Path(name))
    with pytest.raises(FileNotFoundError):
        open_regular_file(Path("nowhere"))


def test_long_files_are_refused_before_they_are_read(tmp_path):
    path = tmp_path / "long"
    with path.open("wb") as file:
        file.truncate(2**40)  # which takes no room on the disk
    for act in (check_regular_file, open_regular_file, read_file_bytes, read_file_text):
        with pytest.raises(ValueError, match=r"must have at most 1,000 bytes, got 1,099,511,627,776"):
            act(path, 1000)
    with pytest.raises(ValueError, match="must have at most"):
        dp.load(path)


def test_a_file_is_looked_at_again_once_it_is_open(tmp_path, monkeypatch):
    """A pipe that comes in its place between the two is refused, too."""
    path = tmp_path / "file"
    path.write_bytes(b"data")
    look = os.stat

    def look_and_replace(each, **options):
        found = look(each, **options)
        path.unlink()
        os.mkfifo(path)
        return found

    monkeypatch.setattr(os, "stat", look_and_replace)
    with pytest.raises(ValueError, match="this is a folder, a pipe"):
        open_regular_file(path)


def test_texts_have_the_line_ends_of_python(tmp_path):
    (tmp_path / "text").write_bytes("ä\r\nb\rc\n".encode())
    assert read_file_text(tmp_path / "text", 100) == (tmp_path / "text").read_text(encoding="utf-8") == "ä\nb\nc\n"


def find_openers(source):
    """Yields the calls in a module that open a file, as its text has them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            own = name.split(".")[-1]
            if own in OPENERS and not (own == "load" and name.split(".")[0] not in ("np", "numpy", "torch", "json")):
                yield ast.unparse(node)


def test_no_other_module_opens_files_to_read():
    """Libraries that open by a name, such as SQLite and Arrow, come after ``check_regular_file``."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        where = path.relative_to(PACKAGE).as_posix()
        # verify.py stands alone, without the package's files.
        if where in ("_support/files.py", "_support/file_lock.py", "verify.py") or where in WRITERS:
            continue
        for call in find_openers(path.read_text(encoding="utf-8")):
            if not call.startswith(OWN) and "open_csv" not in call:
                found.add(f"{where}: {call}")
    assert not found
