"""One, two and four processes train as one: batches, noise, sums, accounts, and what happens when they differ."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from forked import RECORDS
from killed import ALGORITHMS, FEW, NORMS, SETTINGS
from ranks import (
    ADACLIP,
    ADAPTED,
    BY_NORMS,
    COUNTED,
    DPIS,
    FIXED,
    LOSSES,
    PADDED,
    SEED,
    SHARE,
    candidates,
    noise,
    trained,
)
from scipy import stats
from small import cross_entropy, mlp, private, table

import tightdp as dp
from tightdp._support.process_owner import ProcessOwner
from tightdp.clipping_and_noise.sampling import draw_poisson_sample
from tightdp.torch import DPAdam
from tightdp.torch.randomness.run_key import KeyedRandomSource

if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
    pytest.skip("needs torch.distributed with gloo", allow_module_level=True)

RANKS = Path(__file__).with_name("ranks.py")
SIZES = (1, 2, 4)
pytestmark = [
    pytest.mark.filterwarnings("ignore:the gradients of all records that were looked at"),  # losses that stand still
    pytest.mark.xdist_group("ranks"),  # one set of processes for all
]


def run_ranks(folder, *arguments):
    done = subprocess.run([sys.executable, RANKS, folder, *arguments], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("ranks")
    run_ranks(found)
    return found


@pytest.fixture(scope="module")
def killed(folder):
    return folder / "killed"


@pytest.fixture(scope="module")
def found(folder):
    """What each rank of each number of ranks found."""
    paths = {path.stem: torch.load(path, weights_only=False) for path in folder.glob("*.pt")}
    assert len(paths) == sum(SIZES) - 1  # one was lost on purpose
    return paths


def each(found, name):
    return [one[name] for one in found.values() if name in one]


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    "name, settings",
    [("fixed", FIXED), ("losses", LOSSES), ("counted", COUNTED), ("adaclip", ADACLIP), ("padded", PADDED),
     ("dpis", DPIS), ("padded dpis", DPIS | PADDED), ("share", SHARE),
     ("adapted", ADAPTED)],
)  # fmt: skip
def test_with_fixed_physical_batches_any_number_of_ranks_is_one_process_to_the_last_bit(found, name, settings):
    alone = trained(**settings)
    for one in each(found, name):
        assert same(one["parameters"], alone["parameters"]) and same(one["released"], alone["released"])
        assert all(one[fact] == alone[fact] for fact in ("history", "epsilon", "losses"))


def test_a_seeded_run_that_goes_on_with_other_ranks_is_the_one_that_never_stopped(found):
    alone = trained(**FIXED)
    for key, one in found.items():
        assert one["halting"]["began"] == {"1": 0, "2": 7, "4": 14}[key[0]]
        assert same(one["halting"]["parameters"], alone["parameters"]) == (key[0] == "4")


@pytest.mark.parametrize(
    "name, settings", [("free", {}), ("float", {"arithmetic": "float"}), ("dpis free", {"algorithm": BY_NORMS})]
)
def test_sums_agree_to_the_rounding_of_floats(found, name, settings):
    alone = trained(**settings)
    for one in each(found, name):
        for p, q in zip(one["parameters"], alone["parameters"], strict=True):
            torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)
    for size in SIZES:  # and all ranks of one run hold the same
        ranks = [one[name]["parameters"] for key, one in found.items() if key.startswith(f"{size}-")]
        assert all(same(ranks[0], other) for other in ranks)


@pytest.mark.parametrize("name, settings", [("candidates", FIXED), ("free candidates", {"arithmetic": "float"})])
def test_ranks_draw_the_candidates_of_one_process_and_share_them(found, name, settings):
    alone = candidates(**settings)
    for size in SIZES:
        ranks = [one[name] for key, one in found.items() if key.startswith(f"{size}-")]
        for step, (rows, seen) in enumerate(alone):
            assert all(rank[step][0] == rows for rank in ranks)
            shares = [rank[step][1] for rank in ranks]
            assert seen == len(rows) and (sum(shares) == len(rows) or len(ranks) < size)
            assert max(shares) <= max(2, -(-len(rows) // size) + (name == "candidates"))
    assert 5 < np.mean([len(rows) for rows, _ in alone]) < 50


def test_a_model_that_is_sharded_trains_as_a_whole_one(found, folder):
    """By FSDP2, also from a checkpoint on the way, with the same bits; each rank holds its part of the parameters."""
    important = trained(**DPIS)["parameters"]
    assert all(same(one["parameters"], important) for one in each(found, "dpis sharded"))
    alone = trained(**FIXED)["parameters"]
    assert all(one["began"] == 10 and same(one["parameters"], alone) for one in each(found, "sharded"))
    torch.manual_seed(1)
    model = mlp()
    adam = private(model, table(RECORDS), DPAdam(model.parameters(), lr=0.5), noise_multiplier=1.0, epochs=2,
                   random_state=SEED, algorithm="dp-adam", **FIXED)  # fmt: skip
    adam.fit(cross_entropy)
    one = found["2-0"]
    assert same(one["sharded float"]["parameters"], one["whole float"]["parameters"])
    assert same(one["sharded adam"]["parameters"], list(model.parameters()))
    for size in SIZES:
        ranks = [one for key, one in found.items() if key.startswith(f"{size}-")]
        assert sum(one["sharded"]["local"] for one in ranks) == sum(p.numel() for p in alone) or len(ranks) < size
    whole = private(mlp(), table(RECORDS), checkpoint=folder / "sharded-2", random_state=SEED, epochs=2,
                    noise_multiplier=1.0)  # fmt: skip
    assert whole.steps_ == 20 and same(list(whole.model.parameters()), alone)
    refused = found["4-0"]["sharded"]["same"]
    assert refused[0] == "ValueError" and "sharded over the processes that train it" in refused[1]


def test_noise_has_the_same_bits_for_any_number_of_ranks(found):
    for name, settings in (("noise", {}), ("float noise", {"arithmetic": "float"})):
        alone = noise(**settings)
        assert all(torch.equal(one, alone) for one in each(found, name))


@pytest.mark.parametrize("name", ["noise", "secure noise", "float noise"])
def test_no_noise_is_added_twice_or_left_out(found, name):
    """The mean square of n normals is that of chi squared: each rank's share by itself, and no two steps alike."""
    for key, one in found.items():
        steps, n = one[name].shape
        size = int(key[0])
        for rank in range(size):
            share = one[name][:, n * rank // size : n * (rank + 1) // size]
            square = float((share.double() ** 2).sum())
            assert 1e-6 < stats.chi2(share.numel()).cdf(square) < 1 - 1e-6
        assert all(abs(np.corrcoef(one[name][0], one[name][k])[0, 1]) < 5 / math.sqrt(n) for k in range(1, steps))


def test_each_record_of_a_batch_is_in_one_share(found):
    source = dp.Philox(SEED)
    drawn = [draw_poisson_sample(source, RECORDS, 3 / RECORDS).tolist() for _ in range(RECORDS // 3)]
    empty = 0
    for name in ("shares", "pieces"):
        for size in SIZES:
            ranks = [found[key][name] for key in sorted(found) if key.startswith(f"{size}-")]
            for step, expected in enumerate(drawn):
                pieces = [piece for rank in ranks for piece in rank[step][0]]
                if len(ranks) == size:
                    assert sorted(row for piece in pieces for row in piece) == expected
                empty += any(not rank[step][0] for rank in ranks)
                assert all(rank[step][1] == expected for rank in ranks)
    assert empty > 10


def test_unseeded_runs_have_one_key_each_and_begin_with_the_model_of_rank_0(found):
    for size in SIZES:
        ranks = [one["unseeded"] for key, one in found.items() if key.startswith(f"{size}-")]
        assert all(same(ranks[0][k], other[k]) for other in ranks for k in (0, 1))
        assert not same(ranks[0][0], ranks[0][1])


def test_ranks_that_differ_are_told_what_differs(found):
    wrong = found["2-0"]["wrong"]
    says = {
        "settings": "settings must be the same on all ranks: that of rank 1",
        "seed": "random state must be the same on all ranks",
        "records": "number of records must be the same on all ranks",
        "model": "model must be the same on all ranks",
        "optimizer": "optimizer must be the same on all ranks",
        "batch": "batch must be the same on all ranks",
        "group": "distributed must be a process group that this process is in",
        "all": "noise_multiplier must be",
    }
    for name, text in says.items():
        kind, message = wrong[name]
        assert kind == "ValueError" and message.startswith(text), name
    assert wrong["nothing charged"] == 1
    assert wrong["calls"][0] == "RuntimeError" and "must make the same calls: rank 1" in wrong["calls"][1]


def test_a_rank_may_have_no_coordinate(found):
    assert len(set(each(found, "one number"))) == 1


@pytest.mark.parametrize("distributed, kind", [(True, ValueError), ("gloo", TypeError), (1, TypeError)])
def test_without_a_group_there_is_one_process(distributed, kind):
    with pytest.raises(kind, match=r"^distributed must be"):
        private(mlp(), table(RECORDS), noise_multiplier=1.0, distributed=distributed)


def test_an_error_of_one_rank_stops_all_and_releases_nothing(found):
    wrong = found["2-0"]["wrong"]
    for name in ("one", "error"):
        assert wrong[name][0] == "RuntimeError" and "rank 1 raised an error" in wrong[name][1]
    assert wrong["unmoved"] and wrong["charged"] == 2 and "ended by an error" in wrong["ended"][1]


def test_the_ledger_is_that_of_rank_0_and_is_charged_once(found):
    assert found["2-0"]["ledger"]["entries"] == 1
    assert found["2-0"]["ledger"]["refused"][0] == "BudgetExceeded"


def test_integers_add_up_modulo_two_to_the_64(found):
    assert found["2-0"]["wrapped"] == [2**63 - 1 + 2**60 + 3 - 2**64, 1]


def test_the_statement_names_the_network(found):
    for key, one in found.items():
        assert any("processes send each other" in item for item in one["free"]["outside"]) == (key[0] != "1")


def test_a_lost_rank_stops_the_others(found):
    lost = found["2-0"]["lost"]
    for name, why in (("first", "a rank was lost"), ("then", "ended by an error")):
        assert lost[name][0] == "RuntimeError" and why in lost[name][1]
    assert lost["steps"] == 2


def test_a_key_stays_where_it_is(monkeypatch):
    import copy
    import os
    import pickle

    key = bytes(range(32))
    assert (
        KeyedRandomSource(key, 3, ProcessOwner()).integers(4) == KeyedRandomSource(key, 3, ProcessOwner()).integers(4)
    ).all()
    assert (
        KeyedRandomSource(key, 3, ProcessOwner()).integers(4) != KeyedRandomSource(key, 4, ProcessOwner()).integers(4)
    ).any()
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="would repeat"):
            copied(KeyedRandomSource(key, 0, ProcessOwner()))
    assert "0001" not in repr(KeyedRandomSource(key, 0, ProcessOwner()))
    source = KeyedRandomSource(key, 0, ProcessOwner())
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="is a fork"):
        source.integers(1)


@pytest.fixture(scope="module")
def whole():
    """What killed runs end as: runs that nobody killed, by algorithm."""
    return {
        name: private(mlp(), table(RECORDS), algorithm=algorithm, **SETTINGS).fit(cross_entropy)
        for name, algorithm in ALGORITHMS.items()
    }


def releases(case, number):
    """(step, first values) of every release in a life, which its ranks saw alike."""
    seen = [[json.loads(line) for line in path.read_text().splitlines()] for path in case.glob(f"releases-{number}-*")]
    longest = max(seen, key=len)
    assert all(each == longest[: len(each)] for each in seen)
    return [(step, tuple(values)) for step, values in longest]


def check_case(case, whole):
    algorithm = case.name.split(", ")[1]
    whole = whole[algorithm]
    assert [path for path in case.glob("stopped-1-*") if "a rank was lost" in path.read_text()], "a rank goes on alone"
    assert not [*case.glob("ended-1-*"), *case.glob("stopped-2-*")]
    ended = [torch.load(path, weights_only=False) for path in case.glob("ended-2-*")]
    assert len(ended) == int(case.name[-1])
    before, after = releases(case, 1), releases(case, 2)
    for one in ended:
        assert one["steps"] == whole.plan.steps
        assert one["history"] == whole.history_ or (algorithm == "share" and check_sums(case, one["history"]))
        assert one["privacy"] == whole.privacy_
        assert all(step <= one["began"] for step, _ in before), "released and not charged"
        assert [step for step, _ in after] == list(range(one["began"] + 1, one["steps"] + 1))
        assert all(map(torch.equal, one["parameters"], ended[0]["parameters"]))
    values = [each for _, each in before + after]
    assert len(set(values)) == len(values), "noise was used twice"
    charges = 2 if case.name.startswith(("after the ledger", "before run.json")) else 1
    assert len(dp.Ledger(case / "ledger").history) == charges


def check_sums(case, history):
    """Every sum of norms that a life released is in the account, and none has the noise of another."""
    seen = [max((path.read_text().split() for path in case.glob(f"sums-{n}-*")), key=len) for n in (1, 2)]
    sums = [*seen[0], *seen[1]]
    assert 2 <= len(sums) <= history.count(NORMS) <= 3 and len(set(sums)) == len(sums)
    return len(history) - history.count(NORMS) == 6


def test_a_killed_rank_stops_the_others_and_the_run_goes_on(killed, whole):
    cases = [path for path in killed.iterdir() if path.is_dir()]
    assert len(cases) == len(FEW)
    for case in cases:
        check_case(case, whole)


@pytest.mark.hunt
def test_a_rank_killed_at_any_point(tmp_path, whole):
    run_ranks(tmp_path, "killed")
    cases = [path for path in (tmp_path / "killed").iterdir() if path.is_dir()]
    assert len(cases) == 77
    for case in cases:
        check_case(case, whole)
