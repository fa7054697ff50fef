"""DPIS in PyTorch with a norm bound that adapts: the charge, the bounds by hand, and runs that go on."""

import json

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("torch", reason="needs torch")

import torch
from small import copied, cross_entropy, mlp, notes, private, step_of, still, table
from torch.utils.data import TensorDataset

import tightdp as dp
from tightdp.torch import DPAdam
from tightdp.torch.plan import norm_sum_account
from tightdp.torch.plan.norm_sum_account import NormSumAccount
from tightdp.train import DPIS, CallableModel, fit

NOISE, RECORDS, STEPS = 5.0, 600, 10
FIXED = DPIS(adapt=0.7, norm_noise=NOISE, reach=1.5)
RELEASED = DPIS(adapt=0.7, norm_share=None, norm_noise=30.0, reach=1.5)
SETTINGS = {"batch_size": 60, "epochs": 3, "epsilon": 2.0}
BOTH = pytest.mark.parametrize("algorithm", [FIXED, RELEASED])


def made(algorithm=FIXED, **settings):
    torch.manual_seed(8)
    return private(mlp(), table(RECORDS), algorithm=algorithm, **{**SETTINGS, **settings})


def linear(model, batch):
    return model(batch[0]).squeeze(1)


def steep(norms, **settings):
    """A run on records whose gradients have these norms, wherever the model stands."""
    model = torch.nn.Linear(1, 1, bias=False)
    return private(model, TensorDataset(torch.tensor(norms)[:, None]), **{**SETTINGS, **settings})


def bounds_of(run):
    """The norm bounds of the epochs so far."""
    return [epoch.get("max_norm", run.plan.max_norm[0]) for epoch in run._account.epochs]


def adapted_by_hand(factor, released, first):
    return float(np.clip(factor * np.asarray(released) / RECORDS, first / 100, 4 * first))


@pytest.fixture
def released(monkeypatch):
    """The sums of norms from which norm bounds follow, in the order of their release."""
    found, adapt = [], DPIS.choose_dpis_norm_bound

    def seen(settings, total, records):
        found.append(total)
        return adapt(settings, total, records)

    monkeypatch.setattr(DPIS, "choose_dpis_norm_bound", seen)
    return found


@pytest.mark.parametrize("given", [{"epsilon": 2.0}, {"epsilon": None, "noise_multiplier": 1.5}])
@pytest.mark.parametrize("norm_noise", [NOISE, None])
def test_the_charge_is_that_of_all_steps_and_all_sums_of_norms(given, norm_noise):
    def gradients(w, X, y):
        return np.zeros((len(X), 1))

    run = made(DPIS(adapt=0.7, norm_noise=norm_noise), **given)
    step, norms = step_of(run.plan.noise_multiplier, 0.2), dp.Gaussian(run.plan.settings.norm_noise)
    assert run.charged_ == step * 30 + norms * 2 and (norm_noise is None or norms == dp.Gaussian(NOISE))
    X = np.zeros((RECORDS, 1))
    plain = DPIS(60, 3, adapt=0.7, norm_noise=norm_noise, noise_multiplier=given.get("noise_multiplier"))
    table_run = fit(CallableModel(1, gradients), X, X[:, 0], plain, epsilon=given["epsilon"], delta=1e-5,
                    public_size=RECORDS)  # fmt: skip
    assert run.charged_ == table_run.charged and run.privacy_ == table_run.privacy
    run.fit(cross_entropy)
    assert run.history_ == table_run.history == ((step,) * 10 + (norms,)) * 2 + (step,) * 10
    assert run.epsilon() == run.privacy_


def test_a_run_that_ends_early_has_spent_what_it_released():
    run, total = made(), dp.Composition()
    while run._account.remaining_steps:
        for batch in run.loader:
            run.step(cross_entropy, batch)
            total = sum((m * 1 for m in run.history_), dp.Composition())
            assert run._account.charged_so_far == total == run.plan.charge_after(run.steps_)
    assert total == run.charged_


@BOTH
def test_a_private_number_of_records_is_paid_from_the_same_target(algorithm):
    run = made(algorithm, public_size=None)
    run.fit(cross_entropy)
    assert run.charged_ == run.plan.count + run.plan.rest and run.epsilon() == run.privacy_ <= 2.0
    assert run.history_[0] == run.plan.count
    assert run.history_.count(dp.Gaussian(algorithm.norm_noise)) == run.plan.settings.norm_sum_count
    assert sum((m * 1 for m in run.history_[1:]), dp.Composition()).epsilon(run.plan.rest.nominal_delta) <= 2.0


@BOTH
@pytest.mark.parametrize(("first", "factor"), [(1.0, 0.7), (0.05, 1.0), (5.0, 0.001), (2e-28, 0.001), (2e29, 1.0)])
def test_bounds_follow_by_hand_from_released_sums(released, algorithm, first, factor):
    """The numbers behind a release are sums of norms clipped at 4 C; the bounds are lambda / N times a release."""
    norms = np.linspace(0.1, 3.0, RECORDS, dtype=np.float32)
    settings = DPIS(adapt=factor, norm_share=algorithm.norm_share, norm_noise=algorithm.norm_noise, reach=1.5)
    run = steep(norms, algorithm=settings, max_norm=first).fit(linear)
    expected = np.minimum(norms.astype(float), 4 * first).sum()
    assert len(released) == 2 and len(set(released)) == 2
    assert all(abs(one - expected) < 6 * 4 * first * (settings.norm_noise + 1e-3) for one in released)
    assert bounds_of(run) == [first, *(adapted_by_hand(factor, one, first) for one in released)]


@BOTH
def test_sums_are_of_the_norms_at_the_parameters_with_which_an_epoch_begins(monkeypatch, algorithm):
    found, build = [], norm_sum_account.norm_sum_query
    run, seen = made(algorithm), []

    def watched(bound, total):
        query = build(bound, total)
        found.append((bound, int(query.evaluate(None)[0]) * query.grid, query.grid, copied(run.model)))
        seen.append(run.steps_)
        return query

    monkeypatch.setattr(norm_sum_account, "norm_sum_query", watched)
    run.fit(cross_entropy)
    bounds = bounds_of(run)
    sums = {10: [4.0], 20: [4.0]} if algorithm is FIXED else {0: [1.0], 10: [4.0, bounds[1]], 20: [4.0, bounds[2]]}
    assert [(step, bound) for step, (bound, *_) in zip(seen, found, strict=True)] == [
        (step, bound) for step, several in sums.items() for bound in several
    ]
    inputs, labels = run.loader.dataset.tensors
    for bound, total, grid, parameters in found:
        expected = 0.0
        for x, y in zip(inputs, labels, strict=True):
            now = {name: p.requires_grad_() for name, p in parameters.items()}
            loss = torch.nn.functional.cross_entropy(torch.func.functional_call(run.model, now, x[None]), y[None])
            squares = [g.double().square().sum() for g in torch.autograd.grad(loss, list(now.values()))]
            expected += min(float(sum(squares)) ** 0.5, bound)
        assert -RECORDS * grid - 1e-4 * expected < total - expected < 1e-4 * expected


@BOTH
def test_the_noise_on_sums_of_norms(released, algorithm):
    made(algorithm, batch_size=RECORDS, epochs=150, epsilon=60.0, max_norm=2.0).fit(still)
    noise = np.array(released) / (algorithm.norm_noise * 4 * 2.0)
    assert len(noise) == 149 and len(set(released)) == 149
    assert 1e-6 < stats.chi2(149).cdf((noise**2).sum()) < 1 - 1e-6 and abs(noise.mean()) < 5 / 149**0.5


@pytest.mark.parametrize("arithmetic", ["exact", "float"])
@pytest.mark.parametrize(("first", "later"), [(0.05, 0.2), (1.0, 0.5)])
def test_a_step_takes_records_and_adds_vectors_by_the_bound_of_its_epoch(monkeypatch, first, later, arithmetic):
    """All gradients are 1 or 0.1 long. The bounds on norms are renewed for the new C, or too few would be taken."""
    monkeypatch.setattr(DPIS, "choose_dpis_norm_bound", lambda settings, total, records: later)
    norms = np.where(np.arange(RECORDS) % 2, 1.0, 0.1).astype(np.float32)
    settings = DPIS(adapt=1.0, norm_share=1.0, norm_noise=NOISE, reach=1.5)
    run = steep(norms, algorithm=settings, max_norm=first, batch_size=150, epochs=10, epsilon=100.0,
                arithmetic=arithmetic)  # fmt: skip
    totals, release = [], run._release_run_sums

    def seen(sums):
        totals.append(float(sums.convert_to_floats()[0]))
        return release(sums)

    run._release_run_sums = seen
    run.fit(linear)
    for bound, found in ((first, totals[:4]), (later, totals[4:8]), (later, totals[8:])):
        counts = np.array(found) / bound
        assert np.abs(counts - counts.round()).max() < 1e-2 and len(found) in (4, 32)
        p = 0.25 * np.minimum(norms.astype(float), bound) / bound
        off = (counts.sum() - len(found) * p.sum()) / (len(found) * (p * (1 - p)).sum()) ** 0.5
        assert abs(off) < 6


@BOTH
def test_a_step_has_the_noise_of_its_epoch(algorithm):
    model = torch.nn.Linear(5, 3000)
    run = private(model, table(RECORDS), algorithm=algorithm, physical_size=50, **SETTINGS)
    seen = set()
    for batch in [*run.loader, *run.loader]:
        run.step(still, batch)
        now, bound = run._account.current_plan, bounds_of(run)[-1]
        seen.add(bound)
        assert now.mechanism == run.history_[-1] and now.max_norm == (bound,)
        noise = torch.cat([p.grad.reshape(-1) for p in model.parameters()]).double() * now.divisor
        noise /= now.noise_multiplier * bound
        assert 1e-7 < stats.chi2(len(noise)).cdf(float((noise**2).sum())) < 1 - 1e-7
    assert len(seen) == 2


@BOTH
def test_the_audit_measures_in_units_of_the_bound_of_the_epoch(algorithm):
    run = steep([30.0] * RECORDS, algorithm=algorithm)
    two_epochs = [*run.loader, *run.loader]
    for bound, batches in ((1.0, two_epochs), (adapted_by_hand(0.7, 4.0 * RECORDS, 1.0), [])):
        assert run._account.current_plan.max_norm[0] == pytest.approx(bound, rel=0.2)
        assert run.audit(linear).ok and max(run.audit(linear).moved) == pytest.approx(1.0, abs=1e-6)
        for batch in batches:
            run.step(linear, batch)


@pytest.mark.parametrize("norm", [0.0, 0.3, 3.999, 4.0, 4.001, 1e30, float("inf"), float("nan")])
def test_a_record_moves_a_sum_of_norms_by_its_norm_and_at_most_by_four_bounds(monkeypatch, norm):
    found, build = [], norm_sum_account.norm_sum_query

    def watched(bound, total):
        query = build(bound, total)
        found.append((bound, query.grid, int(query.evaluate(None)[0])))
        return query

    monkeypatch.setattr(norm_sum_account, "norm_sum_query", watched)
    others = np.linspace(0.1, 6.0, RECORDS, dtype=np.float32)
    for norms in (others, np.append(others, np.float32(norm))):
        steep(norms, algorithm=FIXED, public_size=RECORDS).fit(linear)
    (bound, grid, without), _, (_, _, there), _ = found
    assert bound == 4.0 and 0 <= there - without <= bound / grid
    expected = min(np.float32(norm).item(), bound) if np.isfinite(norm) else 0.0
    assert abs((there - without) * grid - expected) <= grid


@pytest.mark.parametrize("name", ["shares.json", "charged"])
def test_damaged_folders_are_refused(tmp_path, name):
    run = made(checkpoint=tmp_path)
    for batch in [*run.loader, *run.loader]:
        run.step(cross_entropy, batch)
    marks = {path.name: path.read_text() for path in (tmp_path / "charged", tmp_path / "shares.json")}
    assert marks["charged"] == "." * 10 + "n" + "." * 10
    for text in ("", "n" + "." * 20, "." * 20, "." * 10 + "nn" + "." * 10, "." * 9 + "n" + "." * 11):
        (tmp_path / name).write_text(text if name == "charged" else "[[0.5, 1.0, 1.0]]")
        if (name, text) != ("charged", ""):  # a run that was charged and took no step has these files, too
            with pytest.raises((ValueError, TypeError), match=r"checkpoint must|in state"):
                made(checkpoint=tmp_path)
    for file, text in marks.items():
        (tmp_path / file).write_text(text)
    assert made(checkpoint=tmp_path).history_ == run.history_


@BOTH
@pytest.mark.parametrize("steps", [4, 10, 17])
def test_a_run_that_goes_on_has_the_same_bound(tmp_path, algorithm, steps):
    first = made(algorithm, checkpoint=tmp_path)
    while first.steps_ < steps:
        for batch in first.loader:
            first.step(cross_entropy, batch)
            if first.steps_ == steps:
                break
    first.save()
    other = made(algorithm)
    other.load_state_dict(json.loads(json.dumps(first.state_dict())))
    run = made(algorithm, checkpoint=tmp_path)
    for each in (run, other):
        assert each.history_ == first.history_ and bounds_of(each) == bounds_of(first)
        assert each._account.current_plan == first._account.current_plan
        each.fit(cross_entropy)
        assert each.history_[: len(first.history_)] == first.history_
        assert bounds_of(each)[: len(bounds_of(first))] == bounds_of(first)
        sums = each.plan.settings.norm_sum_count
        assert len(each.history_) == 30 + sums and len(set(bounds_of(each))) == 3
        assert each.epsilon() == each.privacy_ <= 2.0
        with pytest.raises(dp.BudgetExceeded):
            next(iter(each.loader))


@pytest.mark.parametrize("at", ["look", "note"])
@BOTH
def test_a_sum_that_is_lost_stays_charged(tmp_path, monkeypatch, algorithm, at):
    """With a public share no sum takes its place, so that the charge is the plan's; the epoch keeps its bound."""
    run = made(algorithm, checkpoint=tmp_path)
    for batch in run.loader:
        run.step(cross_entropy, batch)
    notes().clear()

    def fails(model, batch):
        notes().append(1)
        if at == "look" and run._account.charged_sums > len(before):
            raise MemoryError
        return cross_entropy(model, batch)

    def lost(account, total, max_norm):
        raise MemoryError

    before = [m for m in run.history_ if isinstance(m, dp.Gaussian)]
    with monkeypatch.context() as patched:
        if at == "note":
            patched.setattr(NormSumAccount, "choose_epoch_settings", lost)
        with pytest.raises(MemoryError):
            run.step(fails, next(iter(run.loader)))
    again = made(algorithm, checkpoint=tmp_path, after_failure=True)
    assert again.history_ == run.history_ and len(again.history_) > len(before) + STEPS
    again.fit(cross_entropy)
    sums = sum(isinstance(m, dp.Gaussian) for m in again.history_)
    if algorithm is FIXED:
        assert sums == 2 and bounds_of(again)[1] == bounds_of(again)[0] == 1.0 != bounds_of(again)[2]
        assert again._account.charged_so_far == again.charged_
    else:
        assert sums == 5 + (1 if at == "look" else 2) and len(set(bounds_of(again))) == 3
        assert again._account._budget.spent <= again._account._budget.cap
    assert made(algorithm, checkpoint=tmp_path, after_failure=True).history_ == again.history_


def test_a_run_takes_no_state_with_more_sums_than_it_has_charged():
    """The state was ignored, and the run released the epoch's sum a second time."""
    first, other = made(FIXED), made(FIXED)
    for batch in first.loader:
        first.step(cross_entropy, batch)
    other.load_state_dict(first.state_dict())
    first._account.spend_norm_sums_of_plan()
    with pytest.raises(ValueError, match="ahead of a run"):
        other.load_state_dict(first.state_dict())
    fresh = made(FIXED)
    fresh.load_state_dict(first.state_dict())
    assert fresh.history_ == first.history_ and not fresh._account.adapts_norm_bound


CHOSEN = {"share": 0.5, "noise": 1.0, "max_norm": 1.0}


@pytest.mark.parametrize(
    "epochs",
    [
        [{"sums": 1, "steps": 4, **CHOSEN}],
        [{"sums": 0, "steps": 4, **CHOSEN}],
        [{"sums": 0, "steps": 10}, {"sums": 0, "steps": 4}],
        [{"sums": 0, "steps": 10}, {"sums": 2, "steps": 4, **CHOSEN}],
        [{"sums": 0, "steps": 10}, {"sums": 1, "steps": 4}],
        [{"sums": 0, "steps": 10}, {"sums": 1, "steps": 4, **CHOSEN, "max_norm": 4.1}],
        [{"sums": 0, "steps": 10}, {"sums": 1, "steps": 4, **CHOSEN, "max_norm": 0.001}],
    ],
)
def test_states_that_no_run_had_are_refused(epochs):
    run = made()
    state = {**run.state_dict(), "run": "0" * 32, "steps": sum(epoch["steps"] for epoch in epochs), "epochs": epochs}
    with pytest.raises((ValueError, TypeError), match="state"):
        run.load_state_dict(state)
    assert run.history_ == ()


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"algorithm": DPIS(adapt=1.0, norm_noise=0.5)}, "norm_noise must be larger, or epochs fewer"),
        ({"algorithm": DPIS(adapt=1.0, norm_share=None, norm_noise=0.5)}, "norm_noise must be larger"),
        ({"max_norm": 3e29}, r"max_norm must be a number in \[2e-28, 2e29\]"),
        ({"max_norm": 1e-28}, r"max_norm must be a number in \[2e-28, 2e29\]"),
        ({"max_norm": [1.0] * 4}, "max_norm must be one number for DPIS"),
        ({"epochs": 1.5}, "epochs"),
        ({"epsilon": None}, "epsilon must be given, or a noise_multiplier"),
    ],
)
def test_what_is_refused(settings, match):
    with pytest.raises((ValueError, TypeError), match=match):
        made(**settings)


def test_adam_that_knows_its_noise_is_refused():
    model = mlp()
    with pytest.raises(ValueError, match=r"^optimizer must not be a DPAdam where .* adapt is given"):
        private(model, table(RECORDS), DPAdam(model.parameters()), algorithm=FIXED, **SETTINGS)


@BOTH
def test_the_statement_says_lambda_and_the_noise(algorithm):
    found = made(algorithm, max_norm=0.5).statement_
    (norms,) = (text for text in found.released if "but the first" in text)
    assert "clipped to 2" in norms and f"{algorithm.norm_noise:g} times that" in norms
    assert "0.7 times the released mean norm, within [0.005, 2]" in found.public["settings"]


def test_a_single_epoch_releases_no_sum():
    run = made(epochs=1)
    assert run.charged_ == run.plan.mechanism * 10 and run.fit(cross_entropy).history_ == (run.plan.mechanism,) * 10
