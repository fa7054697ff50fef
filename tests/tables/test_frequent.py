"""The frequent values of a column: the exact law of what is released stays within what is charged."""

import json
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest

import tightdp as dp
from tightdp.cli import main
from tightdp.release_gate.count_threshold import find_noisy_count_threshold


def above(sigma, x):
    """P(floor(sigma Z + 1/2) >= x), to 40 digits."""
    return mp.erfc((mp.mpf(x) - 0.5) / mp.mpf(sigma) / mp.sqrt(2)) / 2


@pytest.mark.parametrize("failure", [0.6, 0.5, 0.3, 1e-3, 1e-8, 1e-40, 5e-301])
@pytest.mark.parametrize("sigma", [1e-3, 0.3, 1.0, 7.3, 250.0, 1e6])
def test_the_threshold_is_the_least_that_is_safe(sigma, failure):
    with mp.workdps(40):
        least = find_noisy_count_threshold(sigma, failure)
        assert above(sigma, least - 1) <= failure
        assert least == 2 or above(sigma, least - 2) > mp.mpf(failure) * (1 - mp.mpf("1e-8"))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-8), (4.0, 1e-3)])
def test_one_record_changes_the_law_by_no_more_than_is_promised(epsilon, delta):
    """Only the changed record's value matters: it is in the set or not, with n or n + 1 records. For every n, both
    directions; and with a threshold lower by a tenth it is more than promised."""
    found = dp.frequent_values([], epsilon=epsilon, delta=delta, rng=dp.Philox(1))
    ((_, _), (gaussian, _)) = found.charged.parts
    sigma = gaussian.noise_multiplier

    def worst(least):
        with mp.workdps(40):
            kept = [mp.mpf(0)] + [above(sigma, least - n) for n in range(1, 2 * least)]
            pairs = [*pairwise(kept), *pairwise(kept[::-1])]
            return max(a - mp.exp(epsilon) * b for p, q in pairs for a, b in ((p, q), (1 - p, 1 - q)))

    assert worst(found.threshold) <= delta
    assert worst(found.threshold - max(1, found.threshold // 10)) > delta


def test_the_set_has_the_law_of_its_counts():
    """One value with n records, for n about the threshold: released in so many of 3,000 draws."""
    rng = dp.Philox(3)
    least = dp.frequent_values([], epsilon=1.0, delta=1e-3, rng=rng).threshold
    ((_, _), (gaussian, _)) = dp.frequent_values([], epsilon=1.0, delta=1e-3, rng=rng).charged.parts
    for n in (least - 3, least, least + 2):
        names = [f"{k}" for k in range(3000) for _ in range(n)]
        seen = len(dp.frequent_values(names, epsilon=1.0, delta=1e-3, rng=rng).values)
        p = float(above(gaussian.noise_multiplier, least - n))
        assert abs(seen - 3000 * p) < 5 * (3000 * p * (1 - p)) ** 0.5 + 1


def test_canaries_stay_inside_and_the_order_tells_nothing():
    crowd = ["b"] * 500 + ["a"] * 500 + [None] * 300 + [""] * 300
    for k in range(50):
        found = dp.frequent_values([*crowd, f"canary {k}"], epsilon=1.0, delta=1e-9, missing=("", "None"))
        assert found.values == ("a", "b")
    assert dp.frequent_values([3] * 900, epsilon=1.0, delta=1e-9).values == ("3",)
    assert found.privacy.upper <= 1.0 and found.statement.charged == found.charged
    assert not found.statement.seeded and found.statement.released == (
        f"2 values, whose noisy counts reach {found.threshold:,}",
    )


def test_a_ledger_is_charged_first(tmp_path):
    path = tmp_path / "l"
    dp.Ledger.create(path, epsilon=1.0, delta=1e-6, dataset="test", failure=1e-7)
    found = dp.frequent_values(["a"] * 500, epsilon=0.5, delta=1e-7, ledger=path)
    assert dp.Ledger(path).account.composition == found.charged
    with pytest.raises(dp.BudgetExceeded):
        dp.frequent_values(iter("never"), epsilon=3.0, delta=1e-7, ledger=path)
    assert len(dp.Ledger(path).history) == 1


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (ValueError, "^epsilon must be", {"epsilon": 0.0}),
        (ValueError, "^epsilon must be larger", {"epsilon": 1e-12, "delta": 1e-12}),
        (ValueError, "^delta must be", {"delta": 0.0}),
        (ValueError, r"^delta must be a number in \[1e-300", {"delta": 1e-305}),
        (TypeError, "^values must be a sequence", {"values": "abc"}),
        (TypeError, "^values must be a sequence of values, one for each record, got None", {"values": None}),
        (TypeError, "^values must be a sequence .* got 3", {"values": 3}),
        (TypeError, "^missing must be a sequence of texts, got None", {"missing": None}),
        (TypeError, "^values must be one column, .* got dict", {"values": {"clinic": ["a"]}}),
        (TypeError, "^values must be one column, .* got ndarray", {"values": np.array([["a"], ["b"]])}),
    ],
)
def test_bad_input(error, message, options):
    given = {"values": ["a"], "epsilon": 1.0, "delta": 1e-6, **options}
    with pytest.raises(error, match=message):
        dp.frequent_values(given.pop("values"), **given)


def test_a_data_frame_is_refused_before_the_charge(tmp_path):
    """Its iterator gives the names of the columns, which no record has."""
    pandas = pytest.importorskip("pandas")
    ledger = dp.Ledger.create(tmp_path / "l", epsilon=2.0, delta=1e-6, dataset="test", failure=5e-7)
    with pytest.raises(TypeError, match=r"^values must be one column, .* got DataFrame"):
        dp.frequent_values(pandas.DataFrame({"clinic": ["a"] * 9}), epsilon=1.0, delta=1e-7, ledger=ledger)
    assert ledger.spent == 0


def test_on_the_command_line(tmp_path, capsys):
    file = tmp_path / "people.csv"
    file.write_text("age;clinic\n" + "1;north\n" * 400 + '2;"a,b"\n' * 400 + "3;Clinic of Jane Doe\n4;\n")
    path = str(tmp_path / "l")
    dp.Ledger.create(path, epsilon=2.0, delta=1e-6, dataset="test", failure=1e-7)
    frequent = ["frequent", str(file), "--column", "clinic", "--delta", "1e-7", "--delimiter", ";", "--ledger", path]
    assert main([*frequent, "--epsilon", "0.5"]) == 0
    seen = capsys.readouterr()
    assert "Jane" not in seen.out + seen.err
    assert seen.out.splitlines()[-1] == "--categories 'clinic=\"a,b\",north'"
    assert main([*frequent, "--epsilon", "0.5", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["values"] == ["a,b", "north"] and printed["statement"]["epsilon"] <= 0.5
    assert main([*frequent, "--epsilon", "5"]) == 3
    assert main([*frequent, "--epsilon", "0.5", "--column", "job"]) == 2
    assert len(dp.Ledger(path).history) == 2
    capsys.readouterr()
