"""A run is saved and goes on: nothing that was charged is forgotten."""

import copy
import io
import json

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import cross_entropy, mlp, private, table

import tightdp as dp

SETTINGS = {"noise_multiplier": 1.0, "epochs": 2}


def after(steps, **settings):
    run = private(dataset=table(60), **{**SETTINGS, **settings})
    for _ in range(steps):
        run.step(cross_entropy, next(iter(run.loader)))
    return run


def test_a_resumed_run_has_what_was_charged_before():
    run = after(7)
    file = io.BytesIO()
    torch.save(
        {"run": run.state_dict(), "model": run.model.state_dict(), "optimizer": run.optimizer.state_dict()}, file
    )
    file.seek(0)
    saved = torch.load(file)  # tensors and plain values alone
    other = private(mlp(), table(60), **SETTINGS)
    other.model.load_state_dict(saved["model"])
    other.optimizer.load_state_dict(saved["optimizer"])
    other.load_state_dict(saved["run"])
    assert other.history_ == run.history_ and other.epsilon() == run.epsilon() and other.steps_ == 7
    other.fit(cross_entropy)
    assert other.steps_ == 20 and other.epsilon() == other.privacy_
    with pytest.raises(dp.BudgetExceeded):
        next(iter(other.loader))


def test_a_state_is_plain_json():
    run = after(3)
    state = json.loads(json.dumps(run.state_dict()))
    other = private(mlp(), table(60), **SETTINGS)
    other.load_state_dict(state)
    assert other.steps_ == 3


def test_a_run_does_not_go_back():
    run = after(2)
    early = run.state_dict()
    for _ in range(3):
        run.step(cross_entropy, next(iter(run.loader)))
    run.load_state_dict(early)
    assert run.steps_ == 5
    run.load_state_dict(run.state_dict())
    assert run.steps_ == 5


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.update(tightdp_run=1),
        lambda s: s.update(steps=-1),
        lambda s: s.update(steps=21),
        lambda s: s.update(steps=1.5),
        lambda s: s.pop("plan"),
        lambda s: s["plan"].update(noise_multiplier=2.0),
        lambda s: s["parameters"].pop("0.weight"),
        lambda s: s["parameters"].update({"0.weight": [5, 7]}),
        lambda s: s.update(run=None),
        lambda s: s["plan"].update(max_norm=[2.0]),
    ],
)
def test_other_states_are_refused(change):
    state = copy.deepcopy(after(3).state_dict())
    change(state)
    other = private(mlp(), table(60), **SETTINGS)
    with pytest.raises((ValueError, TypeError), match=r"^state(\.\w+)? must"):
        other.load_state_dict(state)
    assert other.steps_ == 0
    for wrong in (None, [], {}, "x"):
        with pytest.raises(ValueError, match=r"^state must"):
            other.load_state_dict(wrong)


def test_another_run_with_steps_of_its_own():
    one, other = after(3), after(2)
    with pytest.raises(ValueError, match="steps of its own"):
        other.load_state_dict(one.state_dict())
    assert other.steps_ == 2


def test_two_runs_of_the_same_plan_draw_apart():
    one, other = after(0, batch_size=30), after(0, batch_size=30)
    assert next(iter(one.loader)).rows.tolist() != next(iter(other.loader)).rows.tolist()
