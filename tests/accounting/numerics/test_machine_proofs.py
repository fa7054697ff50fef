"""The proofs by machine in docs/theory/machine/, about the coefficients that the C++ sources hold.

A script of Gappa or Sollya has directives between @ signs, which this file replaces by numbers of the sources. So a
coefficient that is changed is a coefficient that the proof is about. A comment `path: code` cites a line of a source
that the script models, and the script fails where the source no longer has this line.
"""

import ast
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
SCRIPTS = ROOT / "docs" / "theory" / "machine"
COMMANDS = {".g": ["gappa"], ".sollya": ["sollya", "--warnonstderr"], ".v": ["coqc", "-q"]}
SLOW = {"inequalities.v", "mills.sollya", "mills_ratio.g", "mills_slope.g"}
"""Scripts that take seconds."""


def read_number(text, single):
    """Returns the floating-point number that a constant expression of the source has, such as -1.0 / 6."""
    text = text.strip().removesuffix("f")
    if "0x" in text:
        return float.fromhex(text)
    node = ast.parse(text, mode="eval").body
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return ast.literal_eval(node.left) / ast.literal_eval(node.right)
    value = ast.literal_eval(node)
    return float(np.float32(text) if single else value)


def read_coefficients(source, path, anchors):
    """Returns the coefficients, lowest power first, of the first polynomial that follows the anchors in a source."""
    text = source(path)
    for anchor in anchors.split(">"):
        text = text[text.index(anchor.strip()) + len(anchor.strip()) :]
    listed = re.match(r"\{\s*\{(.*?)\}\}", text, re.S)
    if listed:
        return [read_number(c, False) for c in listed[1].split(",")]
    arguments = re.search(r"(?:horner|evaluate_normal_polynomial)\([-\w]+,(.*?)\)", text, re.S)[1].split(",")
    return [read_number(c, arguments[0].endswith("f")) for c in reversed(arguments)]


def read_constant(source, path, name):
    """Returns the constant that a source defines as `name = number`."""
    return read_number(re.search(rf"\b{name} = ([^,;]*)[,;]", source(path))[1], False)


def write_polynomial(coefficients):
    """Returns a polynomial in Sollya's free variable _x_."""
    text = coefficients[-1].hex()
    for c in reversed(coefficients[:-1]):
        text = f"{c.hex()} + _x_ * ({text})"
    return text


def write_steps(coefficients, name, y, exact):
    """Returns Gappa's definitions of Horner's rule at `y`, and of its exact value at `exact` in capitals.

    Each product is a variable m, about which the theorem supposes no more than a relative error of 2^-53. So the
    proof holds whether products are rounded or fused with the sums.
    """
    top = len(coefficients) - 1
    big = name.upper()
    lines = [f"{name}{top} = {coefficients[top].hex()};", f"{big}{top} = {coefficients[top].hex()};"]
    for i in reversed(range(top)):
        c = coefficients[i].hex()
        lines += [f"{name}{i} = rnd(m{name}{i} + {c});", f"{big}{i} = {big}{i + 1} * {exact} + {c};"]
    return "\n".join(lines)


def write_products(coefficients, name, y):
    """Returns Gappa's suppositions about the products of write_steps."""
    top = len(coefficients) - 1
    return "\n".join(f"m{name}{i} -/ ({name}{i + 1} * {y}) in [-1b-53, 1b-53] ->" for i in reversed(range(top)))


def fill(script, source):
    """Returns the script with its directives replaced by what the sources hold."""

    def replace(match):
        kind, path, name, *rest = (part.strip() for part in match[1].split(","))
        if kind == "constant":
            return read_constant(source, path, name).hex()
        coefficients = read_coefficients(source, path, name)
        return {"polynomial": write_polynomial, "steps": write_steps, "products": write_products}[kind](
            coefficients, *rest
        )

    return re.sub(r"@(\w+,[^@]*)@", replace, script)


def find_cited_lines(script):
    """Returns the path and the code of each line of a source that the comments of a script cite."""
    return re.findall(r"^(?:#|//) (cpp/\S+): (.*)$", script, re.M)


def prove(name, directory, source):
    """Returns whether the prover accepts the script, filled with numbers of the sources."""
    text = fill((SCRIPTS / name).read_text(), source)
    command = COMMANDS[Path(name).suffix]
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    (directory / name).write_text(text)
    done = subprocess.run([*command, name], cwd=directory, capture_output=True, text=True, timeout=300)
    if command[0] != "sollya":
        return done.returncode == 0
    # Sollya prints true or false for each claim, and goes on after an error.
    return done.returncode == 0 and set(done.stdout.split()) == {"true"} and "error" not in done.stderr


def read_source(path):
    return (ROOT / path).read_text()


NAMES = sorted(path.name for path in SCRIPTS.iterdir())


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in NAMES])
def test_script(name, tmp_path):
    assert prove(name, tmp_path, read_source)


def test_coefficient_that_is_off_by_a_billionth(tmp_path):
    def moved(path):
        return read_source(path).replace("-41.341702240399636", "-41.341702281741338")

    assert not prove("series.sollya", tmp_path, moved)


@pytest.mark.parametrize("name", NAMES)
def test_cited_code_is_in_the_source(name):
    """The scripts model these lines."""
    for path, code in find_cited_lines((SCRIPTS / name).read_text()):
        assert " ".join(code.split()) in " ".join(read_source(path).split()), code
