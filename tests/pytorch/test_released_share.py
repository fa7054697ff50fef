"""DPIS in PyTorch with a released share of norms: what is released, what follows from it, and what it is charged."""

import json

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("torch", reason="needs torch")

import torch
from small import cross_entropy, mlp, notes, private, still, table
from torch.utils.data import TensorDataset

import tightdp as dp
from tightdp.torch import DPAdam
from tightdp.torch.plan.norm_sum_account import make_run_account
from tightdp.torch.plan.plan import plan_run
from tightdp.train import DPIS, CallableModel, fit

NOISE = 30.0
RELEASED = DPIS(norm_share=None, norm_noise=NOISE, reach=1.5)
SETTINGS = {"algorithm": RELEASED, "batch_size": 60, "epochs": 3, "epsilon": 2.0}


def made(dataset=None, **settings):
    torch.manual_seed(8)
    return private(mlp(), table(600) if dataset is None else dataset, **{**SETTINGS, **settings})


@pytest.mark.parametrize(
    ("batch_size", "algorithm", "epsilon"),
    [
        *[(5.0, DPIS(norm_share=None), epsilon) for epsilon in (0.1, 1.0, 10.0)],
        (5.0, DPIS(norm_share=None, norm_noise=2000.0), 0.1),
        (1e-3, DPIS(), 1.0),
        (5.0, DPIS(adapt=0.5), 0.1),
        (5.0, DPIS(adapt=0.5, norm_share=None), 1.0),
    ],
)
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("records", [10, 1000, 10**6])
def test_a_run_follows_every_charge(records, counted, batch_size, algorithm, epsilon):
    """The plan alone, for as many records as are said: each epoch's steps are charged, whatever the sum says."""
    paid = []
    given = plan_run(
        records, dp.Philox(3), epsilon=epsilon, delta=1e-7, batch_size=batch_size, epochs=2, max_norm=(1.0,),
        noise_multiplier=None, public_size=None if counted else records, arithmetic="exact", own=algorithm,
        size=10, pay=paid.append,
    )  # fmt: skip
    assert paid == [given.charged] and given.charged.epsilon(1e-7).upper <= epsilon
    account = make_run_account(given, 10)
    for epoch, share in enumerate((0.001, 1.0)):
        if sums := algorithm.count_norm_sums_of_epoch(epoch):
            account.spend_norm_sums_of_plan(sums)
            account.choose_epoch_settings(share * given.records, 1.0)
        account.spend(given.steps_per_epoch)
    assert account.remaining_steps == 0


def steep(norm, records=600):
    """A model and records whose gradients all have that norm, wherever the model stands."""
    return torch.nn.Linear(1, 1, bias=False), TensorDataset(torch.full((records, 1), norm))


def linear(model, batch):
    return model(batch[0]).squeeze(1)


def released_by(run):
    """What the run's account is told, sum by sum."""
    found, choose = [], run._account.choose_epoch_settings
    run._account.choose_epoch_settings = lambda released, bound: (found.append(released), choose(released, bound))
    return found


@pytest.mark.parametrize("counted", [False, True])
def test_it_is_charged_what_train_charges(counted):
    def gradients(w, X, y):
        return np.zeros((len(X), 1))

    settings = {"public_size": None} if counted else {}
    run = made(**settings)
    algorithm = DPIS(60, 3, norm_share=None, norm_noise=NOISE, reach=1.5)
    X = np.zeros((600, 1))
    other = fit(CallableModel(1, gradients), X, X[:, 0], algorithm, epsilon=2.0, delta=1e-5,
                **({} if counted else {"public_size": 600}))  # fmt: skip
    assert run.charged_ == other.charged and run.privacy_ == other.privacy
    assert run.epsilon() == (dp.Composition() if not counted else run.plan.count * 1).epsilon(1e-5)
    run.fit(cross_entropy)
    assert run.epsilon() == run.privacy_ <= 2.0
    assert any("sum of norms" in item for item in run.statement_.released)


@pytest.mark.parametrize("arithmetic", ["exact", "float"])
@pytest.mark.parametrize("norm", [0.3, 0.8, 5.0, 0.001])
def test_steps_follow_from_the_mean_of_clipped_norms(norm, arithmetic):
    model, records = steep(norm)
    run = private(model, records, **SETTINGS, arithmetic=arithmetic)
    sums = released_by(run)
    run.fit(linear)
    per_epoch = 1 + run.plan.steps_per_epoch
    assert len(run.history_) == 3 * per_epoch and len(sums) == 3
    for epoch, found in enumerate(sums):
        assert abs(found - 600 * min(norm, 1.0)) < 6 * NOISE + 600 * 2.0**-12
        norms, *steps = run.history_[epoch * per_epoch :][:per_epoch]
        share = min(max(found / 600, 1.5 * 0.1), 1.0)
        assert norms == dp.Gaussian(NOISE) and len(set(steps)) == 1
        assert steps[0].sampling_probability == pytest.approx(0.1 / share)
    spent = run._account._budget
    assert spent.cap * 0.9 < spent.spent <= spent.cap
    fixed = sum((m * 1 for m in run.history_), dp.Composition())
    assert fixed.epsilon(1e-5) <= 2.0  # of the same releases, had they been fixed in advance


def test_the_noise_on_sums_of_norms():
    run = made(batch_size=600, epochs=200, epsilon=30.0)
    found = released_by(run)
    run.fit(still)
    sums = np.array(found) / NOISE
    assert len(sums) == 200 and len(set(found)) == 200
    assert 1e-6 < stats.chi2(200).cdf((sums**2).sum()) < 1 - 1e-6 and abs(sums.mean()) < 5 / 200**0.5


def test_a_step_has_the_probabilities_and_the_noise_of_its_epoch():
    model = torch.nn.Linear(5, 3000)
    run = private(model, table(600), **SETTINGS, physical_size=50)
    for batch in [*run.loader, *run.loader]:
        run.step(still, batch)
        now = run._account.current_plan
        assert now.mechanism == run.history_[-1]
        assert run.loader.candidates._stages.sampling_probability == now.sampling_probability
        noise = torch.cat([p.grad.reshape(-1) for p in model.parameters()]).double() * now.divisor / now.noise_deviation
        assert 1e-7 < stats.chi2(len(noise)).cdf(float((noise**2).sum())) < 1 - 1e-7


def test_a_sum_that_is_lost_is_charged_and_released_again(tmp_path):
    notes().clear()

    def fails(model, batch):
        notes().append(1)
        if len(notes()) == 2 or run.history_:  # in the first look at a record, and once a sum of norms is charged
            raise MemoryError
        return cross_entropy(model, batch)

    run = made(checkpoint=tmp_path)
    with pytest.raises(MemoryError):  # in the probe, before anything is charged
        run.step(fails, next(iter(run.loader)))
    assert run.history_ == ()
    with pytest.raises(MemoryError):
        run.step(fails, next(iter(run.loader)))
    with pytest.raises(RuntimeError, match="ended by an error"):
        run.step(cross_entropy, next(iter(run.loader)))
    assert run.history_ == (dp.Gaussian(NOISE),) and run.steps_ == 0 and run.epsilon() == run.privacy_
    with pytest.raises(ValueError, match="checkpoint must be of a run that no error ended"):
        made(checkpoint=tmp_path)
    again = made(checkpoint=tmp_path, after_failure=True)
    assert again.history_ == run.history_
    again.fit(cross_entropy)
    assert again.history_[:2] == (dp.Gaussian(NOISE),) * 2 and len(again.history_) == 1 + 3 * 11
    assert again._account._budget.spent <= again._account._budget.cap


@pytest.mark.parametrize("steps", [4, 10, 17])
def test_a_run_that_goes_on_has_spent_what_it_spent(tmp_path, steps):
    first = made(checkpoint=tmp_path)
    while first.steps_ < steps:
        for batch in first.loader:
            first.step(cross_entropy, batch)
            if first.steps_ == steps:
                break
    first.save()
    state = json.loads(json.dumps(first.state_dict()))
    other = made()
    other.load_state_dict(state)
    run = made(checkpoint=tmp_path)
    for each in (run, other):
        assert each.history_ == first.history_ and each.steps_ == steps
        assert each._account._budget.spent == pytest.approx(first._account._budget.spent, rel=1e-12)
        each.fit(cross_entropy)
        assert each.history_[: len(first.history_)] == first.history_ and len(each.history_) == 33
        if steps % 10:  # an epoch ends with the share that it began with
            assert each.history_[len(first.history_)] == first.history_[-1]
        with pytest.raises(dp.BudgetExceeded):
            next(iter(each.loader))
        assert each._account._budget.spent <= each._account._budget.cap


@pytest.mark.parametrize(
    "epochs",
    [None, 3, [3], [{}], [{"sums": 0, "steps": 4}], [{"sums": 1, "steps": 4}], [{"sums": 1, "steps": 40}],
     [{"sums": 1, "steps": 4, "share": 2.0, "noise": 1.0}], [{"sums": 1, "steps": 4, "share": 0.5, "noise": -1.0}],
     [{"sums": 1, "steps": 3, "share": 0.5, "noise": 1.0}],
     [{"sums": 1, "steps": 2, "share": 0.5, "noise": 1.0}, {"sums": 1, "steps": 2, "share": 0.5, "noise": 1.0}]],
)  # fmt: skip
def test_states_that_no_run_had_are_refused(epochs):
    run = made()
    state = {**run.state_dict(), "run": "0" * 32, "steps": 4, "epochs": epochs}
    with pytest.raises((ValueError, TypeError), match="state"):
        run.load_state_dict(state)
    assert run.history_ == ()


@pytest.mark.parametrize("name", ["shares.json", "charged"])
def test_damaged_folders_are_refused(tmp_path, name):
    run = made(checkpoint=tmp_path)
    run.step(cross_entropy, next(iter(run.loader)))
    for text in ("", "[[", "[[1.0]]", "{}"):
        (tmp_path / name).write_text(text if name == "shares.json" else ".n..")
        with pytest.raises((ValueError, TypeError), match=r"checkpoint must|in state"):
            made(checkpoint=tmp_path)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"epsilon": None, "noise_multiplier": 1.0}, "noise_multiplier must be left out where norm_share is None"),
        ({"epsilon": None}, "epsilon must be given"),
        ({"algorithm": DPIS(norm_share=None, norm_noise=1.0)}, "norm_noise must be larger"),
        ({"epochs": 1.5}, "epochs"),
    ],
)
def test_what_is_refused(settings, match):
    with pytest.raises((ValueError, TypeError), match=match):
        made(**settings)


def test_adam_that_knows_its_noise_is_refused():
    model = mlp()
    with pytest.raises(ValueError, match="optimizer must not be a DPAdam where norm_share is None"):
        private(model, table(600), DPAdam(model.parameters()), **SETTINGS)
