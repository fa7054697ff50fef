"""dp.Statement: what a bound covers, as text, JSON and a page."""

import html.parser
import json
import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.stats import norm

import tightdp as dp
from tightdp.statement.wording import (
    CHARGE_NOTE,
    OTHERS_CHOSE,
    explain_statement_guarantee,
    format_stated_above,
    format_stated_below,
)

RUN = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 100 + dp.Gaussian(20.0)


def statement(run=RUN, delta=1e-5, **options):
    bound = run.epsilon(delta, neighbors=options.get("neighbors", "add_or_remove"))
    return dp.Statement("a model", bound, delta, run, **options)


def text_of(page):
    """What a browser would show, and the tags; it fails for tags that do not match."""
    shown, tags, open_tags = [], [], []

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag, attributes):
            tags.append((tag, dict(attributes)))
            if tag not in ("meta", "line", "polyline", "polygon", "circle"):
                open_tags.append(tag)

        def handle_endtag(self, tag):
            assert open_tags.pop() == tag

        def handle_startendtag(self, tag, attributes):
            tags.append((tag, dict(attributes)))

        def handle_data(self, data):
            if "style" not in open_tags:
                shown.append(data)

    Reader().feed(page)
    assert not open_tags
    return " ".join(" ".join(shown).split()), tags


FULL = {
    "released": ("weights", "a noisy count"),
    "public": {"labels": "declared: a, b", "size": "given"},
    "size": 10**4,
    "outside": ("a scaler",),
    "ledger": "that of 'people'",
}


@pytest.mark.parametrize(
    "made",
    [
        statement(),
        statement(**FULL, seeded=True, arithmetic="idealised", taken=("labels",)),
        statement(neighbors="replace"),
        statement(dp.ApproximateDP(1.0, 1e-6) * 1),
        dp.Statement("nothing", dp.Bound(0.0, 0.0, "closed_form"), 1e-5, dp.Composition()),
        statement(dp.ApproximateDP(1.0, 1e-4) * 1),
    ],
    ids=["plain", "full", "replace", "class", "nothing", "unbounded"],
)
def test_json_keeps_all_of_it(made):
    assert dp.Statement.from_json(made.to_json()) == made
    assert json.loads(made.to_json()) == made.to_dict()


def test_flags_of_numpy_are_those_of_python():
    assert statement(seeded=np.True_).to_json() == statement(seeded=True).to_json()


def test_every_part_is_in_the_text_and_on_the_page():
    made = statement(**FULL)
    page, _ = text_of(made.to_html())
    assert "\n  labels: declared: a, b\n" in str(made)
    for shown in (str(made), page):
        for part in ("a model", made.guarantee, repr(RUN), "weights", "a noisy count", "declared: a, b", "given",
                     "exact: sums of integers", "add or remove one record", "that of 'people'"):  # fmt: skip
            assert part in shown, part
    for line in made.not_covered:
        assert line in page
    assert made.outside and all(f"\n  {line}\n" in str(made) for line in made.outside)
    assert made.not_covered[0] == "a scaler" and "Warning" not in page + str(made)


def test_the_page_stands_alone_and_escapes():
    made = statement(public={"labels": "<script>alert(1)</script> & \"'"}, released=("<b>",), outside=("</div>",))
    page = made.to_html()
    shown, tags = text_of(page)
    assert "<script>alert(1)</script> & \"'" in shown and "<b>" in shown and "</div>" in shown
    assert not {tag for tag, _ in tags} & {"script", "link", "img", "iframe", "object"}
    assert not any(name in ("src", "href") or name.startswith("on") for _, attributes in tags for name in attributes)
    assert "url(" not in page and "@import" not in page
    assert re.findall(r"https?://[^\"' ]*", page) == ["http://www.w3.org/2000/svg"] * 2


def test_the_curves_are_those_of_the_run():
    """Each point of the path, mapped back from the picture, lies on the curve."""
    made = statement()
    first, second = re.findall(r"<svg.*?</svg>", made.to_html())
    space = "{http://www.w3.org/2000/svg}"

    def points(svg):
        edges = [e for e in ElementTree.fromstring(svg).iter(f"{space}polyline") if e.get("class") == "edge"]
        return [np.array([tuple(map(float, p.split(","))) for p in edge.get("points").split()]) for edge in edges]

    ends = {}
    for svg, top in ((first, 12.0), (second, 1.0)):
        for edge, name in zip(points(svg), ("lower", "upper"), strict=True):
            assert edge[:, 0].min() == 62 and edge[:, 0].max() == 406
            ends[top, name] = (edge[:, 0] - 62) / (406 - 62), top * (256 - edge[:, 1]) / (256 - 12)
    most = float(format_stated_above(2 * made.privacy.upper, 2))
    x, y = ends[12.0, "upper"]
    delta = RUN.profile(np.linspace(0, most, 41)).upper[: len(x)]
    assert x[-1] * most >= made.privacy.upper
    np.testing.assert_allclose(y - 12, np.log10(np.maximum(delta, 1e-12)), atol=0.006)
    x, y = ends[1.0, "lower"]
    beta = RUN.tradeoff(np.linspace(0, 1, len(x)) ** 2).lower
    np.testing.assert_allclose(y, beta, atol=0.0005)


def test_what_it_means_is_the_power_of_the_best_test():
    """Of one Gaussian: Phi(Phi^-1(alpha) + 1/sigma)."""
    from statistics import NormalDist

    power = 100 * NormalDist().cdf(NormalDist().inv_cdf(0.01) + 1 / 2)
    made = statement(dp.Gaussian(2.0) * 1)
    said = re.search(r"By all that was charged it is at most ([\d.]+) %", made.to_html())
    assert power <= float(said[1]) <= power * 1.002
    assert float(said[1]) <= float(re.search(r"identify at most ([\d.]+) %", made.meaning[1])[1])


@pytest.mark.parametrize("neighbors", ["add_or_remove", "replace"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (3.0, 0.01), (8.0, 0.0 + 1e-9)])
def test_the_meaning_holds_for_the_worst_of_the_class(epsilon, delta, neighbors):
    """Its trade-off curve has a closed form: beta = max(0, 1 - delta - e^eps alpha, e^-eps (1 - delta - alpha))."""
    beta = max(0.0, 1 - delta - math.exp(epsilon) * 0.01, math.exp(-epsilon) * (1 - delta - 0.01))
    first, second = explain_statement_guarantee(epsilon, delta, neighbors)
    said = float(re.search(r"identify at most ([\d.]+) %", second)[1])
    assert 100 * (1 - beta) <= said <= 100 * (1 - beta) * 1.01
    assert math.exp(epsilon) <= float(re.search(r"at most ([\d.]+) times", first)[1]) <= math.exp(epsilon) * 1.01
    assert f"plus a probability of {format_stated_above(delta)}" in first


def test_no_meaning_is_given_to_what_has_none():
    assert (
        explain_statement_guarantee(math.inf, 1e-5, "add_or_remove")
        == explain_statement_guarantee(1.0, 1e-5, "add")
        == ()
    )


def test_of_many_mechanisms_the_page_lists_some():
    run = sum((dp.Gaussian(10.0 + k) * 1 for k in range(12)), dp.Composition())
    page, _ = text_of(statement(run).to_html())
    assert page.count("Gaussian(") == 10 and "+ 2 more, which the JSON text lists" in page
    assert dp.Statement.from_json(statement(run).to_json()).charged == run


def test_relations_without_curves_have_a_page_all_the_same():
    page = statement(neighbors="add").to_html()
    assert "<svg" in page
    svg = re.search(r"<svg.*?</svg>", page)[0]
    heights = [float(p.split(",")[1]) for p in re.search(r'class="edge" points="([^"]*)"', svg)[1].split()]
    assert heights.count(256.0) <= 1  # a curve that leaves the picture ends there
    run = dp.ZCDP(0.01) * 1
    assert "differentially private" in dp.Statement("s", run.epsilon(1e-5), 1e-5, run).to_html()


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        ({"seeded": True}, "The noise was seeded"),
        ({"size": 100_000}, "delta is 1e-5, which is at least 1/100000"),
        ({"run": dp.Gaussian(0.1) * 1}, "above 10"),
        ({"arithmetic": "idealised"}, "Arithmetic is idealised"),
        ({"public": {"labels": "those that occur"}, "taken": ("labels",)}, "was read off the data: labels"),
    ],
)
def test_warnings(options, warning):
    made = statement(**options)
    assert len(made.warnings) == 1 and warning in made.warnings[0]
    assert made.warnings[0] in str(made) and made.warnings[0] in text_of(made.to_html())[0]


def test_no_warning_where_there_is_none_to_give():
    assert statement(size=99_999).warnings == statement(size=1).warnings == statement().warnings == ()


def test_numbers_are_rounded_outward():
    for x in np.random.default_rng().random(200) * 10.0 ** np.random.default_rng().integers(-9, 12, 200):
        assert (
            float(format_stated_below(x)) <= x <= float(format_stated_above(x))
            and float(format_stated_above(x)) - float(format_stated_below(x)) <= 1.1e-5 * x
        )
    assert (
        format_stated_above(1.0) == format_stated_below(1.0) == "1"
        and format_stated_above(1e-5) == "1e-5"
        and format_stated_above(0.0) == "0"
        and format_stated_above(math.inf) == "inf"
    )
    assert float(format_stated_above(1 + 2**-52)) > 1


def test_it_is_saved_as_it_is(tmp_path):
    made = statement(public={"labels": "é, 日本"})
    made.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == made.to_html()
    assert "é, 日本" in text_of(made._repr_html_())[0] and "Signature" not in made._repr_html_()


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (TypeError, "^subject must be text", {"subject": None}),
        (TypeError, "^privacy must be a Bound", {"privacy": 1.0}),
        (ValueError, "^delta must be", {"delta": 0.0}),
        (TypeError, "^charged must be a Composition", {"charged": dp.Gaussian(1.0)}),
        (ValueError, "^neighbors must be", {"neighbors": "none"}),
        (ValueError, "^arithmetic must be", {"arithmetic": "float"}),
        (TypeError, "^seeded must be", {"seeded": 1}),
        (ValueError, "^size must be", {"size": 0}),
        (TypeError, "^released must be a sequence", {"released": "weights"}),
        (TypeError, "^public must be text", {"public": {"labels": 3}}),
        (ValueError, "^taken must name", {"taken": ("labels",)}),
    ],
)
def test_bad_input(error, message, options):
    given = {"subject": "s", "privacy": RUN.epsilon(1e-5), "delta": 1e-5, "charged": RUN, **options}
    with pytest.raises(error, match=message):
        dp.Statement(**given)


NONE = ["", "[]", "{}", '{"tightdp_statement": 2}', '{"tightdp_statement": 1}', "3"]


@pytest.mark.parametrize("text", [*NONE, pytest.param("[" * 100_000, id="nested too deeply")])
def test_what_is_no_statement(text):
    with pytest.raises((ValueError, TypeError), match=r"^text must (be|have)"):
        dp.Statement.from_json(text)


def test_a_text_makes_no_line_of_its_own():
    """A category may be any text: ends of lines, escapes of terminals and marks that turn the direction are shown."""
    run = dp.Gaussian(5.0) * 1
    text = "a\nWarning: none\r\x1b[2J\u202e\u2028b"
    made = dp.Statement(text, run.epsilon(1e-6), 1e-6, run, released=(text,), public={text: text}, ledger=text)
    plain = dp.Statement("a", run.epsilon(1e-6), 1e-6, run, released=("a",), public={"a": "a"}, ledger="a")
    shown = r"a\nWarning: none\r\x1b[2J\u202e\u2028b"
    assert len(str(made).splitlines()) == len(str(plain).splitlines()) and str(made).splitlines()[0] == shown
    assert all(c.isprintable() for line in str(made).split("\n") for c in line)
    assert shown in made.to_html() and not any(mark in made.to_html() for mark in "\r\x1b\u202e\u2028")
    assert made.public == {text: text} and dp.Statement.from_json(made.to_json()) == made


def test_what_is_no_bound_of_what_was_charged_is_refused():
    """Bounds at another delta, under another relation, or of something else."""
    one = dp.Gaussian(8.0) * 1
    for bound, delta, relation in ((1e-6, 1e-6, "replace"), (1e-3, 1e-6, "add_or_remove")):
        with pytest.raises(ValueError, match="privacy must bound epsilon of what was charged"):
            dp.Statement("a", one.epsilon(bound), delta, one, neighbors=relation)
    with pytest.raises(ValueError, match="privacy must bound epsilon of what was charged"):
        dp.Statement("a", one.epsilon(1e-6), 1e-6, one * 2)
    with pytest.raises(ValueError, match="privacy must bound epsilon of what was charged"):
        dp.Statement("a", one.epsilon(1e-9), 1e-6, one)  # its lower end is too large


@pytest.mark.parametrize("relation", ["add", "remove", "add_or_remove"])
def test_a_larger_bound_of_something_else_is_refused(relation):
    """The bound of all records was taken for that of a sample of them, and its lower end printed as certified."""
    whole, sample = dp.Gaussian(1.0) * 1, dp.PoissonSampled(dp.Gaussian(1.0), 0.5) * 1
    with pytest.raises(ValueError, match="privacy must bound epsilon of what was charged"):
        dp.Statement("a", whole.epsilon(1e-5, neighbors=relation), 1e-5, sample)


@pytest.mark.parametrize("lower", [0.0, 0.4, 1.0])
def test_a_lower_end_is_that_of_the_account(lower):
    """What is loose may be said, where the account proves its lower end."""
    found = RUN.epsilon(1e-5)
    claimed = dp.Bound(found.lower * lower, found.upper * 1.0005, found.engine)
    assert dp.Statement("a", claimed, 1e-5, RUN).privacy == claimed
    above = dp.Bound(found.upper, found.upper * 1.0005, found.engine)
    made = dp.Statement("a", above, 1e-5, RUN)
    assert made.privacy == dp.Bound(found.lower, above.upper, found.engine)
    assert dp.Statement.from_json(made.to_json()) == made


def test_the_meaning_is_the_definition():
    """Of any outcome, by simulation: that the ratio of densities is larger has a probability of far more than delta."""
    noise, delta = dp.Gaussian(1.0), 1e-2
    bound = noise.epsilon(delta)
    (first, _) = dp.Statement("a", bound, delta, noise * 1).meaning
    assert "Whatever outcome one looks for was at most" in first and "plus a probability of 0.01" in first
    factor = math.exp(bound.upper)
    for t in np.linspace(-5, 5, 101):
        assert norm.sf(t - 1) <= factor * norm.sf(t) + delta * (1 + 1e-9)
    ratio = norm.sf(bound.upper - 0.5)  # where the loss is above epsilon
    assert ratio > 3 * delta


@pytest.mark.parametrize(
    "facts",
    [
        {"public": {"number of records": "given: 3,000"}},
        {"public": {"last: number of records": "private, and a noisy count was released; given: 3,000, each counted"}},
        {"released": ("weights", "the number of records with noise, 3,000, each counted by its weight")},
        {"released": ("last: the number of records with noise, 3,000",)},
    ],
)
def test_the_number_of_records_is_one_of_those_in_the_words(facts):
    """By another size the warning of a large delta could be taken out of a file that still gave the number."""
    made = statement(delta=1e-3, size=3000, **facts)
    assert any("at least 1/3000" in line for line in made.warnings)
    for size in (10, None):
        with pytest.raises(ValueError, match="size must be the number of records that public or released gives, 3,000"):
            statement(delta=1e-3, size=size, **facts)
        with pytest.raises(ValueError, match="size must be"):
            dp.Statement.from_json(json.dumps({**made.to_dict(), "size": size, "warnings": []}))


def test_other_facts_may_have_numbers():
    public = {"number of members": "given: 1,000", "number of records": "private, and a noisy count was released"}
    assert statement(size=7, public=public, released=("the labels with noise, 3,000",)).size == 7


def test_the_page_explains_its_numbers_and_has_room_for_who_answers():
    page = text_of(statement().to_html())[0]
    assert CHARGE_NOTE in page and OTHERS_CHOSE in page
    for field in ("One record is", "decided by, because", "Organisation", "Name and role", "Place, date", "Signature"):
        assert field in page
