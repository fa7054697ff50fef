"""The training loss that a run releases: what it is, what it costs, and what it leaves out."""

import math
from fractions import Fraction

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from scipy import stats
from small import cross_entropy, mlp, private, still, table

import tightdp as dp
from tightdp.torch import LossRelease

BOUND = 1.25
WAYS = [("auto", {}), ("exact", {"physical_size": 4}), ("exact", {"physical_size": 4, "padded": True}),
        ("products", {"physical_size": 4, "padded": True}), ("one-by-one", {}),
        ("float", {"physical_size": 4})]  # fmt: skip


def weird(model, batch):
    """Losses of all kinds: far from 0 on both sides, NaN and infinite."""
    x, y = batch
    return (cross_entropy(model, (x, y % 3)) - 1.0) * 10.0 ** (y - 1.0) / (y < 6) * torch.where(y == 5, math.nan, 1.0)


def clipped_by_hand(model, data, rows):
    total = 0.0
    for i in rows:
        loss = float(weird(model, [tensor[None] for tensor in data[i]]).detach())
        total += min(max(loss, -BOUND), BOUND) if math.isfinite(loss) else 0.0
    return total


class MeanOfWords(torch.nn.Module):
    """Takes records of any length."""

    def __init__(self):
        super().__init__()
        self.inner = mlp()

    def forward(self, x):
        return self.inner(x.mean(1))


@pytest.mark.parametrize(
    ("ragged", "arithmetic", "settings"),
    [(False, *way) for way in WAYS] + [(True, *way) for way in WAYS if "padded" not in way[1]],
)
def test_it_is_the_clipped_losses_of_the_records_of_a_step(ragged, arithmetic, settings):
    """Each record's loss is computed alone, in whichever way and places gradients are, also of several shapes."""
    torch.manual_seed(2)
    labels = torch.arange(60) % 7
    data = [(torch.randn(1 + i % 3 if ragged else 2, 5), labels[i]) for i in range(60)]
    run = private(
        MeanOfWords(), data, batch_size=50, epochs=3, noise_multiplier=1e-4, arithmetic=arithmetic, random_state=4,
        release_loss=LossRelease(BOUND, share=0.5, every=1), **settings,
    )  # fmt: skip
    for _ in range(3):
        batch = next(iter(run.loader))
        assert set(labels[batch.rows].tolist()) == set(range(7))
        expected = clipped_by_hand(run.model, data, batch.rows)
        run.step(weird, batch)
        step, mean, noise = run.losses_[-1]
        assert step == run.steps_ and noise == pytest.approx(1e-4 * math.sqrt(2) * BOUND / 50)
        assert abs(mean - expected / 50) < 6 * noise + 1e-5


@pytest.mark.parametrize("arithmetic", ["exact", "one-by-one"])
def test_a_loss_that_looks_at_no_record_counts_for_each(arithmetic):
    """PyTorch computes it once, because it is the same for all records."""
    model = mlp()
    run = private(
        model, noise_multiplier=1e-4, batch_size=60, random_state=1, arithmetic=arithmetic,
        release_loss=LossRelease(100.0, share=0.5, every=1),
    )  # fmt: skip
    expected = sum(float((p.detach() ** 2).sum()) for p in model.parameters())
    run.step(lambda model, batch: sum((p**2).sum() for p in model.parameters()).reshape(1), next(iter(run.loader)))
    assert run.losses_[0].mean == pytest.approx(expected, abs=1e-2)


@pytest.mark.parametrize("share", [1e-6, 0.02, 0.3, 0.5, 0.999, 1 - 1e-9])
@pytest.mark.parametrize("noise", [1e-3, 0.3, 1.0, 7.3, 900.1])
def test_both_sums_together_are_the_gaussian_that_is_charged(share, noise):
    """1 / g^2 + 1 / l^2 <= 1 / z^2 in exact arithmetic, and hardly less."""
    release = LossRelease(1.0, share=share)
    made = [Fraction(f(noise)) for f in (release.gradient_multiplier, release.loss_multiplier)]
    together = sum(1 / multiplier**2 for multiplier in made) * Fraction(noise) ** 2
    assert 1 - Fraction(1, 2**36) < together <= 1


@pytest.mark.parametrize("settings", [{}, {"max_norm": [1.0] * 4}, {"algorithm": "adaclip"}, {"public_size": None}])
def test_the_charge_is_that_of_a_run_without_it(settings):
    torch.manual_seed(1)
    model, data = mlp(), table(300)
    release = LossRelease(2.0, share=0.19)
    options = {"batch_size": 30, "epsilon": 4.0, "random_state": 1, **settings}
    plain, run = (private(model, data, **options, **more) for more in ({}, {"release_loss": release}))
    assert run.charged_ == plain.charged_ and run.privacy_ == plain.privacy_
    assert run.plan.noise_multiplier == plain.plan.noise_multiplier
    assert run.plan.noise_deviation == pytest.approx(plain.plan.noise_deviation / 0.9)
    run.fit(cross_entropy)
    assert run.history_[-10:] == (plain.plan.mechanism,) * 10 and len(run.losses_) == 1
    assert run.privacy_.upper <= 4.0
    said = run.statement_
    assert "a sum of losses with noise after each step, each loss clipped to 2" in said.released
    assert not any("loss" in each for each in plain.statement_.released) and plain.losses_ == ()


def test_the_noise_has_its_deviation_and_is_not_that_of_the_gradients():
    release = LossRelease(3.0, share=0.2, every=1)
    run = private(noise_multiplier=2.0, epochs=20, random_state=3, release_loss=release, max_norm=0.5)
    losses, gradients = [], []
    for _ in range(200):
        run.step(still, next(iter(run.loader)))
        losses.append(run.losses_[-1].mean / run.losses_[-1].noise)
        gradients.append([float(x) for x in torch.cat([p.grad.flatten() for p in run.model.parameters()])])
    assert run.losses_[0].noise == pytest.approx(2.0 * 3.0 / math.sqrt(0.2) / 6)
    assert stats.kstest(losses, "norm").pvalue > 1e-4
    columns = torch.tensor(gradients, dtype=torch.float64).T / (2.0 * 0.5 / math.sqrt(0.8) / 6)
    assert stats.kstest(columns.flatten().numpy(), "norm").pvalue > 1e-4
    correlations = columns @ torch.tensor(losses, dtype=torch.float64) / 200
    assert float(correlations.abs().max()) < 6 / math.sqrt(200)


@pytest.mark.parametrize(("every", "steps"), [(None, [10, 20, 25]), (1, list(range(1, 26))), (7, [7, 14, 21, 25])])
def test_means_of_several_steps(every, steps):
    """They are means of what single steps release, which the same seed shows."""
    torch.manual_seed(1)
    made, seen = [], []
    for k in (every, 1):
        torch.manual_seed(1)
        run = private(epochs=2.5, noise_multiplier=1.0, random_state=8, release_loss=LossRelease(2.0, every=k))
        made.append(run.fit(cross_entropy, lambda done, total, run=run: seen.append(len(run.losses_))).losses_)
    means, single = made
    assert [each.step for each in means] == steps and len(single) == 25
    for first, last in zip([0, *steps], means, strict=False):
        some = [each.mean for each in single[first : last.step]]
        assert last.mean == pytest.approx(sum(some) / len(some))
        assert last.noise == pytest.approx(single[0].noise / math.sqrt(len(some)))
    assert max(seen) == 25


def test_what_was_released_is_saved_and_goes_on(tmp_path):
    settings = {"epochs": 2, "noise_multiplier": 1.0, "random_state": 5, "release_loss": LossRelease(2.0, every=4)}

    def made(**more):
        torch.manual_seed(5)
        return private(mlp(), table(), **settings, **more)

    whole = made().fit(cross_entropy).losses_
    run = made(checkpoint=tmp_path / "run")
    for _, batch in zip(range(6), run.loader, strict=False):
        run.step(cross_entropy, batch)
    run.save()
    state = run.state_dict()
    assert made(checkpoint=tmp_path / "run").fit(cross_entropy).losses_ == whole and len(whole) == 5
    other = made()
    other.model.load_state_dict(run.model.state_dict())
    other.load_state_dict(state)
    assert other.losses_ == whole[:1]
    with pytest.raises(ValueError, match="state must hold the losses"):
        made().load_state_dict({**state, "losses": None})
    with pytest.raises(ValueError, match="state must be of a run with this plan"):
        private(mlp(), table(), epochs=2, noise_multiplier=1.0, random_state=5).load_state_dict(state)


def test_settings():
    for wrong in ({"bound": 0.0}, {"bound": math.nan}, {"bound": 1e31}, {"share": 0.0}, {"share": 1.0}, {"every": 0},
                  {"every": 1.5}):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=f"^{next(iter(wrong))} must"):
            LossRelease(**{"bound": 1.0, **wrong})
    for algorithm in ("dpis", dp.train.DPIS()):
        with pytest.raises(ValueError, match=r"^release_loss must be None for dpis"):
            private(algorithm=algorithm, release_loss=LossRelease(1.0))
    with pytest.raises(TypeError, match=r"^release_loss must be a LossRelease"):
        private(release_loss=1.0)
