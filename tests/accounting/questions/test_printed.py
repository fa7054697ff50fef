"""What is printed of a bound is true: its upper end is rounded up, its lower end down, in every format."""

import math
import random
import re
import sys
from decimal import ROUND_HALF_EVEN
from fractions import Fraction

import pages
import pytest

import tightdp as dp

ROOT = pages.ROOT

LETTERS = ["", "e", "E", "f", "F", "g", "G", "n", "%"]
PRECISIONS = ["", ".0", ".1", ".2", ".3", ".6", ".9", ".15", ".17", ".25"]
AROUND = ["", "+", " ", "-", "12", "<12", "^14", "*=+20", "020", "<010", ",", "_", "028,", "010_"]


def specs():
    """Every letter with every precision; and what stands around them, each with each letter."""
    plain = [precision + letter for precision in PRECISIONS for letter in LETTERS]
    return plain + [a + p + x for a in AROUND for p in ("", ".3") for x in LETTERS if not (x == "n" and a[-1:] in ",_")]


def numbers(count, seed):
    """Of all sizes: drawn evenly and by their exponents, decimals as people write them, and their neighbours."""
    drawn = random.Random(seed)
    for i in range(count):
        x = [
            drawn.uniform(0, 10),
            drawn.lognormvariate(0, 8),
            round(drawn.uniform(0, 3), drawn.randrange(5)),
            float(f"{drawn.randrange(1, 1000)}e{drawn.randrange(-30, 30)}"),
            10.0 ** drawn.randrange(-12, 12),
        ][i % 5]
        yield drawn.choice([x, x, math.nextafter(x, math.inf), math.nextafter(x, 0)])


def stated(text):
    """The number that a text states, exactly."""
    text = re.sub(r"[,_*\s]", "", text)
    return Fraction(text[:-1]) / 100 if text.endswith("%") else Fraction(text)


EDGES = [0.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1e16, 9999999999999998.0, 0.1, 1 - 2**-53, 1e23]


@pytest.mark.parametrize("spec", specs())
def test_rounded_to_the_nearest_a_number_looks_as_python_prints_it(spec):
    """So outward rounding changes digits, and nothing else."""
    from tightdp._support.number_texts import format_rounded_number_text

    for x in [*EDGES, *numbers(100, spec)]:
        if spec.endswith("%") and not (math.isfinite(100 * x) and 100 * Fraction(x) == Fraction(100 * x)):
            continue  # Python multiplies by 100 first, in floating point
        assert format_rounded_number_text(x, spec, ROUND_HALF_EVEN) == format(x, spec)
        assert format_rounded_number_text(-x, spec, ROUND_HALF_EVEN) == format(-x, spec)


@pytest.mark.slow
def test_ten_thousand_bounds_in_every_format():
    """The text of the upper end states at least that, of the lower end at most that, and each the closest such number
    on the grid of what the format can state."""
    formats = [spec for spec in specs() if not spec.startswith("<0")]  # zeros behind a number are digits of another
    for i, (x, y) in enumerate(zip(numbers(10_000, 1), numbers(10_000, 2), strict=True)):
        bound = dp.Bound(min(x, y), max(x, y), "grid")
        for spec in {formats[i % len(formats)], ".2f", ".6g", ""}:
            text, below = format(bound, spec), dp.format_down(bound.lower, spec)
            assert stated(text) >= Fraction(bound.upper), (spec, bound)
            assert stated(below) <= Fraction(bound.lower), (spec, bound)
            if spec and "%" not in spec:  # no further than to the next number
                assert text == format(bound.upper, spec) or stated(format(bound.upper, spec)) < Fraction(bound.upper)
        assert float(str(bound)) == bound.upper and stated(str(bound)) >= Fraction(bound.upper)
        assert bound.upper <= round(bound, 3) <= math.nextafter(bound.upper + 0.001, math.inf)
        assert round(bound) - 1 < Fraction(bound.upper) <= round(bound)
        ends = re.fullmatch(r"\[(.*), (.*)\]", bound.interval(".4f")).groups()
        assert Fraction(ends[0]) <= Fraction(bound.lower) and Fraction(bound.upper) <= Fraction(ends[1])
        assert eval(repr(bound), {"Bound": dp.Bound}) == bound


def test_what_was_false():
    """The interval is .0002 wide and below .12: printed to the nearest, the upper end was under the lower one."""
    bound = dp.Bound(0.1201, 0.1204, "grid")
    assert f"{bound:.2f}" == "0.13" and round(bound, 2) == 0.13 and bound.interval(".2f") == "[0.12, 0.13]"
    assert f"{bound:.1%}" == "12.1%" and f"{bound:.0e}" == "2e-01" and f"{bound:6.2g}" == "  0.13"


def test_the_shortest_text_reads_back():
    for x in [*EDGES, *numbers(2_000, 3)]:
        for text in (dp.format_up(x), dp.format_down(x)):
            assert float(text) == x
    assert dp.format_up(0.5) == dp.format_down(0.5) == "0.5"
    assert (dp.format_down(0.1), dp.format_up(0.1)) == ("0.1", "0.10000000000000001")
    assert dp.format_up(math.inf, ".2f") == "inf" and dp.format_up(sys.float_info.max, ".1e") == "1.8e+308"


@pytest.mark.parametrize("spec", ["d", "s", "x", ".f", "abc"])
def test_what_formats_no_float_formats_no_bound(spec):
    with pytest.raises(ValueError, match=r"[Ff]ormat"):
        format(dp.Bound(0.25, 0.5, "grid"), spec)


def test_no_end_is_rounded_to_the_nearest_on_a_page_or_in_the_package():
    """A bound formats itself; its ends and noise multipliers as plain numbers go through format_up and format_down."""
    nearest = r"\{[^{}]*\b(?:upper|lower|sigma|float\([^{}]*\))(?:\[[^{}]*\])?:[^{}]*\.\d+[efg%]\}"
    sources = [*pages.PAGES, *(ROOT / "examples").glob("*.py"), *(ROOT / "python" / "tightdp" / "cli").glob("*.py")]
    found = [f"{pages.name_of(page)}: {text}" for page in sources for text in re.findall(nearest, page.read_text())]
    assert not found


def test_the_command_line_rounds_outward(capsys):
    """To the nearest the lower end would be 1 in twelve digits, and the upper end 2."""
    from argparse import Namespace

    from tightdp.cli.accounting_commands.composition import print_bound_of_command

    bound = dp.Bound(1 - 2**-50, 2 + 2**-50, "grid")
    print_bound_of_command(Namespace(json=False, neighbors="add"), bound, "epsilon", {"delta": 1e-5}, dp.Gaussian(1.0))
    upper, lower = capsys.readouterr().out.splitlines()
    assert upper.startswith("epsilon <= 2.00000000001 ") and lower.startswith("epsilon >= 0.999999999999 ")
