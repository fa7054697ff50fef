import json

import pytest
from test_mechanisms import EVERY

import tightdp as dp

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
        (ValueError, "text must be .*Expecting value", "not json"),
        pytest.param(ValueError, "text must be .*recursion", "[" * 100_000, id="nested too deeply"),
        (ValueError, "text must be", '{"tightdp_accountant": true, "neighbors": "replace", "history": []}'),
        (TypeError, "history must be", plain(history=3)),
        (ValueError, "type must be one of", plain(entry(type=[]))),
        (TypeError, "history must be", plain(3)),
        (ValueError, "history must have the entries mechanism, count", plain({})),
        (TypeError, "mechanism must be", plain({"mechanism": {}, "count": 1})),
        (ValueError, "type must be one of", plain(entry(type="eval"))),
        (ValueError, "type must be one of", plain(entry(type="A" * 10**7))),
        (TypeError, "mechanism must have the parameters", plain(entry(type="Gaussian", sigma=[0] * 10**6))),
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
    with pytest.raises(TypeError, match="mechanism must have the parameters of its type"):
        dp.Accountant.from_json(json.dumps(plain))
    plain["history"][0]["mechanism"] = {"type": "Gaussian", "noise_multiplier": -1}
    with pytest.raises(ValueError, match="noise_multiplier must be a number in"):
        dp.Accountant.from_json(json.dumps(plain))


@pytest.mark.parametrize("distinct", [1, 2, 300, 5000])
def test_releases_are_merged_as_they_are_recorded(distinct, monkeypatch):
    """A question after a long run looks at few of its releases; recording them took constant time for each."""
    looked_at, canonical = [], dp.Gaussian._canonical
    monkeypatch.setattr(dp.Gaussian, "_canonical", lambda self: looked_at.append(self) or canonical(self))
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
