import json

import pytest
from effort import counted
from every_mechanism import EVERY

import tightdp as dp
from tightdp.mechanisms import mechanism_json

STEP = dp.PoissonSampled(dp.Gaussian(1.0), 0.01)


def test_an_account_answers_as_the_composition_does():
    account = dp.Accountant()
    assert account.epsilon(1e-5).upper == 0 and len(account) == 0
    for _ in range(300):
        account.compose(STEP)
    account.compose(dp.Gaussian(50.0), count=2)
    account.compose(STEP * 700)
    run = STEP * 1000 + dp.Gaussian(50.0) * 2
    assert account.composition == run and len(account) == 1002
    assert account.epsilon(1e-5) == run.epsilon(1e-5)
    assert account.delta(2.0) == run.delta(2.0)
    assert account.history == ((STEP, 300), (dp.Gaussian(50.0), 2), (STEP, 700))


def test_json_round_trip_of_every_mechanism():
    account = dp.Accountant(neighbors="remove")
    for i, mechanism in enumerate(EVERY):
        account.compose(mechanism, count=i + 1)
    again = dp.Accountant.from_json(account.to_json())
    assert again == account and again.composition == account.composition and again.neighbors == "remove"
    assert again != dp.Accountant() and account != "something else"
    again.compose(EVERY[0])
    assert again != account


def test_the_relation_of_an_account_is_the_default_of_its_questions():
    account = dp.Accountant(neighbors="add")
    account.compose(STEP, count=1000)
    assert account.epsilon(1e-5) == (STEP * 1000).epsilon(1e-5, neighbors="add")
    assert account.epsilon(1e-5, neighbors="remove") == (STEP * 1000).epsilon(1e-5, neighbors="remove")


@pytest.mark.parametrize(
    ("error", "name", "arguments"),
    [(TypeError, "mechanism", (1.0,)), (ValueError, "count", (STEP, 0)), (TypeError, "count", (STEP, 1.5))],
)
def test_bad_releases_are_refused_and_not_recorded(error, name, arguments):
    account = dp.Accountant()
    with pytest.raises(error, match=f"^{name} must be"):
        account.compose(*arguments)
    assert account == dp.Accountant()
    with pytest.raises(ValueError, match=r"^neighbors must be one of"):
        dp.Accountant(neighbors="swap")


def plain(*history, **others):
    return json.dumps({"tightdp_accountant": 1, "neighbors": "add_or_remove", "history": history, **others})


def entry(**mechanism):
    return {"mechanism": mechanism, "count": 1}


@pytest.mark.parametrize(
    ("error", "message", "text"),
    [
        (TypeError, "^text must be", None),
        (TypeError, "^text must be", b"{}"),
        (ValueError, "text must be", "[]"),
        (ValueError, "text must be", '{"tightdp_accountant": 99}'),
        (ValueError, "text must be .*not JSON from line 1, column 1 on", "not json"),
        pytest.param(ValueError, "text must be .*nested too deeply", "[" * 100_000, id="nested too deeply"),
        (ValueError, "text must be", '{"tightdp_accountant": true, "neighbors": "replace", "history": []}'),
        (ValueError, "history must be a list", plain(history=3)),
        (ValueError, "type must be one of", plain(entry(type=[]))),
        (ValueError, r"history\[0\] must be an object", plain(3)),
        (ValueError, r"history\[0\] must have the entries .* fewer: count, mechanism", plain({})),
        (ValueError, "mechanism: type must be", plain({"mechanism": {}, "count": 1})),
        (ValueError, "type must be one of", plain(entry(type="eval"))),
        (ValueError, "type must be one of", plain(entry(type="A" * 10**7))),
        (ValueError, "mechanism must have the entries", plain(entry(type="Gaussian", sigma=[0] * 10**6))),
    ],
    ids=range(15),
)
def test_what_is_no_account_is_refused(error, message, text):
    with pytest.raises(error, match=message) as found:
        dp.Accountant.from_json(text)
    assert len(str(found.value)) < 1500


@pytest.mark.parametrize("change", ["neighbors", "history", "count", "mechanism", "Neighbors", "Count"])
def test_no_entry_is_filled_in_or_passed_over(change):
    """A misspelt one would give a smaller epsilon: 0.3 in the place of 5,000."""
    account = dp.Accountant(neighbors="replace")
    account.compose(dp.Gaussian(10.0), 1_000_000)
    found = json.loads(account.to_json())
    assert dp.Accountant.from_json(json.dumps(found)) == account
    part = found["history"][0] if change.lower() in ("count", "mechanism") else found
    kept = part.pop(change.lower())
    if change.lower() != change:
        part[change] = kept
    with pytest.raises(ValueError, match="must have the entries"):
        dp.Accountant.from_json(json.dumps(found))


def test_wrong_parameters_in_json_are_named():
    plain = {"tightdp_accountant": 1, "neighbors": "replace", "history": [entry(type="Gaussian", sigma=1)]}
    with pytest.raises(ValueError, match=r"mechanism must have the entries .* more: sigma"):
        dp.Accountant.from_json(json.dumps(plain))
    plain["history"][0]["mechanism"] = {"type": "Gaussian", "noise_multiplier": -1}
    with pytest.raises(ValueError, match="noise_multiplier must be a number in"):
        dp.Accountant.from_json(json.dumps(plain))


def internal_mechanisms():
    """Classes of the engines, which no user composes, with parameters that nobody checks."""
    found, waiting = set(), [dp.Mechanism]
    while waiting:
        subclasses = [cls for cls in waiting.pop().__subclasses__() if cls.__module__.startswith("tightdp.")]
        waiting += subclasses
        found |= {cls.__name__ for cls in subclasses}
    return sorted(found - set(dp.__all__))


def test_files_name_public_mechanisms_alone():
    """An account of ``ReplacedGaussian`` with a negative probability was certified to cost nothing."""
    names = internal_mechanisms()
    assert {"ReplacedGaussian", "ReplacedClass", "Replaced", "Zeroed", "BinaryRangeMember"} <= set(names)
    forged = {"noise_multiplier": 1.0, "sampling_probability": -3}
    for name in names:
        with pytest.raises(ValueError, match="type must be one of"):
            dp.Accountant.from_json(plain(entry(type=name, **forged)))
        with pytest.raises(ValueError, match="type must be one of"):
            inner = {"type": name, **forged}
            dp.Accountant.from_json(plain(entry(type="PoissonSampled", mechanism=inner, sampling_probability=0.5)))
    classes = [getattr(dp, name) for name in dp.__all__ if isinstance(getattr(dp, name), type)]
    public = {cls for cls in classes if issubclass(cls, dp.Mechanism)} - {dp.Mechanism}
    assert set(mechanism_json.TYPES.values()) == public == {type(each) for each in EACH}


EACH = (*EVERY, dp.PrivacyLoss.from_pmf([0.0, 1.0], [0.5, 0.5]))


@pytest.mark.parametrize("mechanism", EACH, ids=lambda each: type(each).__name__)
def test_no_parameter_has_another_type(mechanism):
    """A file is refused with a ValueError, or is an account that is written with that very value."""
    account = dp.Accountant()
    account.compose(mechanism)
    written = json.loads(account.to_json())["history"][0]["mechanism"]
    for name in written:
        for value in (None, [], {}, [[1.0]], {"type": "Gaussian"}, "x", True, False, -1.5, -3, 10**350):
            edited = {**written, name: value}
            try:
                found = dp.Accountant.from_json(plain({"mechanism": edited, "count": 1})).to_json()
            except ValueError as error:
                assert str(error).startswith("text.history[0].mechanism") and len(str(error)) < 1500
                continue
            assert json.dumps(json.loads(found)["history"][0]["mechanism"]) == json.dumps(edited)
        with pytest.raises(ValueError, match=r"must have the entries|type must be"):
            rest = {key: value for key, value in written.items() if key != name}
            dp.Accountant.from_json(plain({"mechanism": rest, "count": 1}))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "1" * 100_000, "9007199254740993"])
def test_numbers_are_those_of_json_and_doubles(number):
    text = plain(entry(type="Gaussian", noise_multiplier=1.25)).replace("1.25", number)
    with pytest.raises(ValueError, match="text"):
        dp.Accountant.from_json(text)


def test_mechanisms_nest_to_a_depth():
    inner = {"type": "Gaussian", "noise_multiplier": 1.0}
    for _ in range(16):
        inner = {"type": "Group", "mechanism": inner, "size": 1}
    with pytest.raises(ValueError, match="at most 16 mechanisms inside of one another"):
        dp.Accountant.from_json(plain({"mechanism": inner, "count": 1}))


@pytest.mark.parametrize("distinct", [1, 2, 300, 5000])
def test_releases_are_merged_as_they_are_recorded(distinct, monkeypatch):
    """A question after a long run looks at few of its releases; recording them took constant time for each."""
    looked_at, canonical = [], dp.Gaussian._to_canonical_mechanism
    monkeypatch.setattr(dp.Gaussian, "_to_canonical_mechanism", lambda self: looked_at.append(self) or canonical(self))
    account, releases = dp.Accountant(), [dp.Gaussian(1.0 + i) for i in range(distinct)]
    for i in range(5000):
        account.compose(releases[i % distinct], count=3)
    recording = len(looked_at)
    parts = account.composition.parts
    asking = len(looked_at) - recording
    assert parts == dp.Composition((releases[i % distinct], 3) for i in range(5000)).parts
    assert len(account) == 15000 and len(account.history) == (1 if distinct == 1 else 5000)
    assert recording <= 4 * 5000
    assert asking <= 2 * max(256, distinct)


@pytest.mark.slow
def test_an_account_keeps_the_curve_of_a_group(monkeypatch):
    """The curve of a group is the same at every step: what was kept changes neither an answer nor its work."""
    from tightdp.accounting.engines import auto

    group = (dp.PoissonSampled(dp.Laplace(3.0), 0.2) * 2).group(2)
    computed, compute = [], auto._run_engines_for_points

    def count(mechanism, *rest):
        computed.append(mechanism)
        return compute(mechanism, *rest)

    monkeypatch.setattr(auto, "_run_engines_for_points", count)
    auto._CURVES._kept.clear()
    account, answers = dp.Accountant(), []
    account.compose(group)
    for _ in range(3):
        account.compose(dp.Laplace(5.0))
        answers.append((account.composition, account.composition.epsilon(1e-6, neighbors="remove")))
    assert computed == [group.parts[0][0]]
    for run, found in answers:
        auto._CURVES._kept.clear()
        cold, units, calls = counted(lambda run=run: run.epsilon(1e-6, neighbors="remove"))
        warm, same_units, fewer_calls = counted(lambda run=run: run.epsilon(1e-6, neighbors="remove"))
        assert found == cold == warm and units == same_units and fewer_calls < calls


def test_a_result_that_a_budget_cuts_short_is_not_kept():
    from tightdp import _core
    from tightdp.accounting.numerics.shared_work import WorkCache

    kept = WorkCache(2)
    with _core.Budget(1000):
        assert kept.find_or_compute_work("a", lambda: _core.work_charge(2000)) is False
    assert kept.find_or_compute_work("a", lambda: _core.work_charge(2000)) is True
    with _core.Budget(1000):  # what is kept would exceed the budget: it is computed as if nothing were kept
        assert kept.find_or_compute_work("a", lambda: _core.work_charge(2000)) is False
    before = _core.work_spent()
    assert kept.find_or_compute_work("a", lambda: False) is True and _core.work_spent() - before == 2000
    for key in "bc":
        kept.find_or_compute_work(key, lambda: "other")
    assert kept.find_or_compute_work("a", lambda: "again") == "again"
