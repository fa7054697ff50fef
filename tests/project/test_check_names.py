"""The check of names counts what the glossary says, fails when a count rises, and lowers limits alone."""

import importlib.util
import json
import sys
import textwrap

import pages
import pytest

GLOSSARY = """
| Term | Meaning | Not called |
|---|---|---|
| privacy loss distribution, PLD | A distribution. | `law`, pair of laws |
| trade-off curve, f-DP | A curve. | |

## Verbs

The name begins with one.

add,
is, read

## Names of one word

These are allowed.

epsilon

## Words that begin no sentence

They hide the subject.

of, what
"""


@pytest.fixture
def check_names():
    """tools/check_names.py as a module."""
    found = importlib.util.spec_from_file_location("check_names", pages.ROOT / "tools" / "check_names.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture
def project(check_names, tmp_path, monkeypatch):
    """Returns a function that writes a file of a small project, and one that runs the check there."""
    monkeypatch.setattr(check_names, "ROOT", tmp_path)
    monkeypatch.setattr(check_names, "GLOSSARY", tmp_path / "glossary.md")
    monkeypatch.setattr(check_names, "LIMITS", tmp_path / "limits.json")
    (tmp_path / "glossary.md").write_text(GLOSSARY)
    (tmp_path / "limits.json").write_text('{"docs/glossary.md (verbs)": {"glossary": 3}}')

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(*options):
        monkeypatch.setattr(sys, "argv", ["check_names.py", *options])
        return check_names.main()

    return write, run


def set_limits(tmp_path, **rooms):
    lists = {"docs/glossary.md (verbs)": {"glossary": 3}, "docs/glossary.md (one_word)": {"glossary": 1}}
    limits = {f"python/tightdp/{room}": {"one-word names": limit} for room, limit in rooms.items()}
    (tmp_path / "limits.json").write_text(json.dumps(lists | limits))


def test_the_glossary_is_read(check_names):
    words = check_names.read_glossary(GLOSSARY)
    assert words == (
        {"distribution", "pld", "curve", "dp"},
        {"law"},
        {"add", "is", "read"},
        {"epsilon"},
        {"of", "what"},
    )


def test_the_lists_of_this_glossary_name_each_word_once_and_in_order(check_names):
    text = check_names.GLOSSARY.read_text()
    words = check_names.read_glossary(text)
    lists = [" ".join(part.rstrip().rpartition("\n\n")[2].split()).split(", ") for part in text.split("\n## ")[-3:]]
    assert lists == [sorted(set(each)) for each in lists]
    assert [set(each) for each in lists] == [words.verbs, words.one_word, words.openers]
    assert "privacy" in words.nouns and "law" in words.replaced
    assert not words.nouns & words.replaced


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("def add_rows(): pass", []),
        ("def epsilon(): pass", []),
        ("def curve_of(): pass", []),  # a term of the tables
        ("def renyi_curves(): pass", []),
        ("def curve(): pass", ["one-word names"]),
        ("def held(): pass", ["odd names", "one-word names"]),
        ("class A:\n  @property\n  def rows_seen(self): pass", []),
        ("class A:\n  @property\n  def of_rows(self): pass", ["odd names"]),
        ("class A:\n  @property\n  def rows(self): pass", []),
        ("def rows_without(): pass", ["odd names"]),
        ("def of_curve(): pass", ["odd names"]),
        ("def read_law(): pass", ["replaced words"]),
        ("class ZeroedLaw: pass", ["replaced words"]),
        ("def __of__(): pass", []),
        ("def _(): pass", []),
        ('"""Of it."""', ["fragments"]),
        ('X = 1\n"""What it is."""', ["fragments"]),
        ("# Of this\n# Of that\n\n# of it", ["fragments"]),
        ('"""Official. Of it."""', []),
        ("def read_rows():" + "\n  pass" * 8, []),
        ("def read_rows():" + "\n  pass" * 9, ["no docstring"]),
        ('def read_rows():\n  """Reads."""' + "\n  pass" * 8, []),
    ],
)
def test_a_python_file(check_names, source, kinds):
    found = check_names.check_python(textwrap.dedent(source), check_names.read_glossary(GLOSSARY))
    assert sorted(kind for kind, _, _ in found) == kinds


def test_a_count_that_rises_fails_and_one_that_falls_asks_for_a_lower_limit(project, tmp_path, capsys):
    write, run = project
    write("python/tightdp/release_gate/oracle.py", "def curve(): pass\ndef loss_curve(): pass\ndef pld(): pass\n")
    set_limits(tmp_path, release_gate=2)
    assert run() == 0 and capsys.readouterr().out == ""
    set_limits(tmp_path, release_gate=1)
    assert run() == 1
    assert "python/tightdp/release_gate: one-word names went from 1 to 2" in capsys.readouterr().out
    set_limits(tmp_path, release_gate=3)
    assert run() == 0
    assert "python/tightdp/release_gate: one-word names went from 3 to 2" in (said := capsys.readouterr().out)
    assert "--lower" in said
    assert run("--list", "one-word names", "gate") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"python/tightdp/release_gate/oracle.py:{n}" for n in ("1: curve", "3: pld")
    ]


def test_limits_move_with_files_and_no_total_rises(project, tmp_path):
    write, run = project
    write("python/tightdp/release_gate/oracle.py", "def curve(): pass\n")
    set_limits(tmp_path, records=2)
    assert run() == 1
    assert run("--lower") == 0
    assert run() == 0
    assert json.loads((tmp_path / "limits.json").read_text())["python/tightdp/release_gate"] == {"one-word names": 1}
    before = (tmp_path / "limits.json").read_text()
    write("python/tightdp/records/sources/rows.py", "def pld(): pass\n")
    with pytest.raises(SystemExit, match="one-word names"):
        run("--lower")
    assert (tmp_path / "limits.json").read_text() == before


def test_a_list_of_the_glossary_cannot_grow(project, tmp_path, capsys):
    _, run = project
    set_limits(tmp_path)
    assert run() == 0
    (tmp_path / "glossary.md").write_text(GLOSSARY.replace("is, read", "is, read, wander"))
    assert run() == 1
    assert "glossary went from 3 to 4" in capsys.readouterr().out


def test_comments_of_the_c_sources_are_read(project, tmp_path, capsys):
    write, run = project
    write("cpp/src/grid/grid_plan.cpp", "// Of it\n// Of that\nint x;  // Of no line of its own\n/// What it is.\n")
    set_limits(tmp_path)
    assert run() == 1
    assert "cpp/src/grid: fragments went from 0 to 2" in capsys.readouterr().out
