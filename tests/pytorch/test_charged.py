"""A private run: what is charged for it, before anything is released and when something fails."""

import copy
import pickle
import threading

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from small import copied, cross_entropy, private, step_of, still, table

import tightdp as dp
from tightdp.torch import PoissonLoader


def assert_unchanged(model, before):
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_the_account_is_that_of_the_mechanisms_by_hand():
    run = private(epsilon=2.0, epochs=3)
    q, steps = 0.1, 30
    z = run.plan.noise_multiplier
    assert z == pytest.approx(dp.noise_multiplier(2.0, 1e-5, q, steps), rel=1e-6)
    assert (run.history_, run.steps_, run.epsilon().upper) == ((), 0, 0.0)
    assert run.charged_ == step_of(z, q) * steps
    assert run.privacy_.upper <= 2.0 and run.privacy_ == (step_of(z, q) * steps).epsilon(1e-5)
    for k, batch in enumerate(run.loader, 1):
        run.step(cross_entropy, batch)
        assert run.history_ == (step_of(z, q),) * k
    assert k == len(run.loader) == 10
    assert run.epsilon().upper == (step_of(z, q) * 10).epsilon(1e-5).upper < run.privacy_.upper
    assert run.epsilon(1e-3).upper < run.epsilon().upper
    assert run.fit(cross_entropy) is run and run.steps_ == 30 and run.epsilon().upper == run.privacy_.upper


def test_nothing_is_released_beyond_the_plan():
    run = private(noise_multiplier=1.0).fit(cross_entropy)
    before = copied(run.model)
    with pytest.raises(dp.BudgetExceeded, match="all 10 steps"):
        next(iter(run.loader))
    run = private(run.model, noise_multiplier=1.0)
    late = list(run.loader)
    extra = next(iter(run.loader))
    for batch in late:
        run.step(still, batch)
    before = copied(run.model)
    with pytest.raises(dp.BudgetExceeded):
        run.step(cross_entropy, extra)
    assert run.steps_ == 10 and not extra.is_used
    assert_unchanged(run.model, before)


def test_epochs_end_with_the_plan():
    run = private(batch_size=18, epochs=2, noise_multiplier=1.0)  # 4 batches an epoch, 7 steps in all
    sizes = []
    while run.plan.steps > run.steps_:
        k = 0
        for batch in run.loader:
            run.step(cross_entropy, batch)
            k += 1
        sizes.append(k)
    assert sizes == [4, 3]


@pytest.mark.parametrize("fails", ["loss", "shape", "memory"])
def test_a_step_that_fails_is_charged_releases_nothing_and_ends_the_run(fails, tmp_path):
    made = lambda **options: private(dataset=data, batch_size=30, physical_size=5, epochs=2,  # noqa: E731
                                     noise_multiplier=1.0, checkpoint=tmp_path, **options)  # fmt: skip
    data = table(60)
    run = made()
    run.step(cross_entropy, next(iter(run.loader)))
    before, grads = copied(run.model), [p.grad.clone() for p in run.model.parameters()]
    calls = []

    def failing(model, batch):
        calls.append(1)
        if len(calls) == 3:
            if fails == "shape":
                return cross_entropy(model, batch).mean()
            raise {"loss": KeyError, "memory": MemoryError}[fails]("no more")
        return cross_entropy(model, batch)

    batch = next(iter(run.loader))
    with pytest.raises((KeyError, ValueError, MemoryError)):
        run.step(failing, batch)
    assert run.steps_ == 2 and batch.is_used
    assert_unchanged(run.model, before)
    assert all(torch.equal(p.grad, g) for p, g in zip(run.model.parameters(), grads, strict=True))
    for other in (batch, next(iter(run.loader))):
        with pytest.raises(RuntimeError, match="ended by an error after 2 charged steps"):
            run.step(cross_entropy, other)
    state = run.state_dict()
    for refused in (
        made,
        lambda: private(dataset=data, batch_size=30, epochs=2, noise_multiplier=1.0).load_state_dict(state),
    ):
        with pytest.raises(ValueError, match="must be of a run that no error ended"):
            refused()
    again = made(after_failure=True)
    assert again.steps_ == 2 and "ended this run so often, and that it went on: 1." in " ".join(
        again.statement_.outside
    )
    again.step(still, next(iter(again.loader)))  # nothing is left over of the step that failed
    assert max(float(p.grad.abs().max()) for p in again.model.parameters()) < 8 / 30
    other = private(dataset=data, batch_size=30, epochs=2, noise_multiplier=1.0)
    other.load_state_dict(state, after_failure=True)
    assert other.fit(cross_entropy).steps_ == 4


def test_an_error_of_settings_ends_nothing():
    run = private(noise_multiplier=1.0)
    with pytest.raises(ValueError, match="one loss for each record"):
        run.step(lambda model, batch: cross_entropy(model, batch).mean(), next(iter(run.loader)))
    for wrong in (None, torch.nn.functional.cross_entropy):
        with pytest.raises(TypeError, match="loss_fn"):
            run.step(wrong, next(iter(run.loader)))
    assert run.steps_ == 0 and run.fit(cross_entropy).steps_ == 10


def test_a_record_that_cannot_be_read_ends_the_run():
    class Broken(torch.utils.data.Dataset):
        broken = False

        def __len__(self):
            return 60

        def __getitem__(self, i):
            if self.broken:
                raise OSError("no such record")
            return torch.ones(5), 0

    data = Broken()
    run = private(dataset=data, batch_size=60, epochs=4, noise_multiplier=1.0)
    run.step(cross_entropy, next(iter(run.loader)))
    data.broken = True
    with pytest.raises(OSError, match="no such record"):
        run.step(cross_entropy, next(iter(run.loader)))
    data.broken = False
    with pytest.raises(RuntimeError, match="ended by an error after 1 charged steps"):
        run.step(cross_entropy, next(iter(run.loader)))


def test_one_step_at_a_time():
    run = private(noise_multiplier=1.0)
    batch, other = next(iter(run.loader)), next(iter(run.loader))

    def nested(model, records):
        run.step(cross_entropy, other)

    with pytest.raises(RuntimeError, match="one at a time"):
        run.step(nested, batch)
    found, inside, leave = [], threading.Event(), threading.Event()

    def slow(model, records):
        inside.set()
        leave.wait(20)
        return cross_entropy(model, records)

    while len((batch := next(iter(run.loader))).rows) == 0:
        pass
    thread = threading.Thread(target=lambda: run.step(slow, batch))
    thread.start()
    inside.wait(20)
    with pytest.raises(RuntimeError, match="one at a time"):
        run.step(cross_entropy, other)
    leave.set()
    thread.join()
    run.step(cross_entropy, other)
    assert not found and run.steps_ == 2


def test_batches_of_others_are_refused():
    run = private()
    for wrong in ([torch.randn(6, 5), torch.zeros(6)], None, next(iter(private().loader)),
                  next(iter(PoissonLoader(table(), 1.0)))):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=r"^batch must come from"):
            run.step(cross_entropy, wrong)
    with pytest.raises(TypeError, match=r"^loss_fn must"):
        run.step(3, next(iter(run.loader)))
    assert run.steps_ == 0


def test_a_run_is_not_copied():
    for copy_of in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="same budget"):
            copy_of(private())


def test_a_private_number_of_records_is_released_first():
    run = private(dataset=table(300), public_size=None, batch_size=30, epsilon=4.0)
    count, *steps = run.history_
    assert isinstance(count, dp.Gaussian) and not steps
    assert abs(run.plan.records - 300) < 6 * count.noise_multiplier
    assert run.privacy_.upper <= 4.0
    assert run.epsilon().upper == (count * 1).epsilon(1e-5).upper < 1
    rest = dp.ApproximateDP(0.98 * 4.0, 0.98 * 1e-5)
    assert run.charged_ == count + rest
    run.step(cross_entropy, next(iter(run.loader)))
    assert run.epsilon().upper == run.privacy_.upper  # the steps depend on what was released
    q = run.plan.sampling_probability
    assert run.history_ == (count, step_of(run.plan.noise_multiplier, q)) and q == 30 / run.plan.records
    assert (step_of(run.plan.noise_multiplier, q) * run.plan.steps).epsilon(0.98e-5).upper <= 0.98 * 4.0


def test_the_statement():
    run = private(epsilon=2.0)
    stated = run.statement_
    assert (stated.privacy, stated.charged, stated.size) == (run.privacy_, run.charged_, 60)
    assert stated.arithmetic == "idealised gradients" and "roundings of single gradients" in " ".join(
        stated.not_covered
    )
    assert dp.Statement.from_json(stated.to_json()) == stated
    counted = private(public_size=None, dataset=table(300), batch_size=30).statement_
    assert "number of records with noise" in str(counted) and "given" not in counted.public["number of records"]


@pytest.mark.parametrize("public_size", [60, None])
def test_a_ledger_is_charged_for_the_plan_before_any_release(tmp_path, public_size):
    place = tmp_path / "records.ledger"
    ledger = dp.Ledger.create(place, epsilon=3.0, delta=1e-4, failure=5e-5, dataset="records")
    run = private(epsilon=1.5, ledger=place, public_size=public_size)
    assert ledger.account.composition == run.charged_ and run.steps_ == 0
    assert "ledger" in str(run.statement_).lower()
    with pytest.raises(dp.BudgetExceeded):
        private(epsilon=2.9, ledger=ledger, public_size=public_size)
    assert ledger.account.composition == run.charged_


def test_the_number_of_records_is_not_read_elsewhere():
    """With a public number of records, data sets of other sizes have the same plan."""
    plans = {repr(private(dataset=table(n), public_size=60).plan) for n in (1, 59, 60, 61, 500)}
    assert len(plans) == 1


def test_what_the_account_rests_on_cannot_be_set():
    run = private()
    for name in ("sampling_probability", "steps"):
        with pytest.raises(AttributeError):
            setattr(run.loader, name, 1)
    for name in ("noise_multiplier", "steps", "batch_size"):
        with pytest.raises(AttributeError):
            setattr(run.plan, name, 1)
