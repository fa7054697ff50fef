"""dp.Ledger: one budget that is written down before anything is released."""

import copy
import pickle
import random
from datetime import datetime

import pytest

import tightdp as dp
from tightdp.ledger import ledger as ledger_module

G = dp.Gaussian(10.0)
MECHANISMS = [
    G,
    dp.Laplace(5.0),
    dp.PoissonSampled(dp.Gaussian(1.0), 0.01),
    dp.BoundedRange(0.1),
    dp.DiscreteGaussianVector(100, 3, 2),
    dp.TreeAggregation(30.0, 8, own_steps=True),
    dp.ApproximateDP(0.01, 1e-9),
]


class Homemade(dp.Gaussian):
    """Of which other processes know nothing."""


def created(where, epsilon=1.0, delta=1e-6, dataset="test", **options):
    return dp.Ledger.create(where, epsilon=epsilon, delta=delta, dataset=dataset, **options)


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"failure": 1e-7},
        {"order": 30.0},
        {"family": "zcdp"},
        {"family": "gaussian", "others": dp.Laplace(5.0) * 3},
        {"neighbors": "replace"},
    ],
    ids=str,
)
def test_it_allows_what_a_filter_allows(where, rules):
    """Also opened anew before each spend, by then knowing nothing but what was written."""
    ledger, alone = created(where, **rules), dp.PrivacyFilter(1.0, 1e-6, **rules)
    draw, spent = random.Random(1), []
    for turn in range(40):
        mechanism, count = draw.choice(MECHANISMS), draw.choice([1, 1, 3, 40])
        ledger = dp.Ledger(where) if turn % 3 == 0 else ledger
        allowed = alone.can_spend(mechanism, count)
        assert ledger.can_spend(mechanism, count) == allowed
        if allowed:
            alone.spend(mechanism, count)
            ledger.spend(mechanism, count)
            spent.append((mechanism, count))
        else:
            with pytest.raises(dp.BudgetExceeded):
                ledger.spend(mechanism, count)
    entries = ledger.history
    assert [entry.releases for entry in entries] == [(one,) for one in spent]
    assert [entry.number for entry in entries] == list(range(1, len(spent) + 1))
    assert ledger.account.composition == sum((m * n for m, n in spent), dp.Composition())
    assert 0 < ledger.spent <= 1 and ledger.spent == pytest.approx(alone.spent / alone.cap, rel=1e-12)


def test_what_is_fixed_stays(where):
    made = created(where, 2.0, 1e-7, "census 2030, all rows", family="gaussian", neighbors="replace")
    for ledger in (made, dp.Ledger(where)):
        assert (ledger.epsilon, ledger.delta, ledger.dataset) == (2.0, 1e-7, "census 2030, all rows")
        assert (ledger.neighbors, ledger.family, ledger.spent, ledger.history) == ("replace", "gaussian", 0.0, ())
        with pytest.raises(AttributeError):
            ledger.epsilon = 3.0
    with pytest.raises(dp.LedgerError, match="there is a ledger already"):
        created(where)
    assert dp.Ledger(where).epsilon == 2.0


def test_a_composition_is_spent_as_a_whole_or_not_at_all(where):
    ledger = created(where, family="gaussian")
    run = dp.Gaussian(20.0) * 5 + dp.Gaussian(30.0) * 10
    ledger.spend(run, note="training")
    with pytest.raises(dp.BudgetExceeded):
        ledger.spend(run + dp.Laplace(1.0))
    with pytest.raises(dp.BudgetExceeded):
        ledger.spend(run, 2)
    (entry,) = ledger.history
    assert dict(entry.releases) == dict(run.parts) and entry.note == "training"


def test_entries_tell_when_and_why(where, monkeypatch):
    class Stopped(datetime):
        @classmethod
        def now(cls, zone):
            return cls(2030, 1, 2, 3, 4, 5, 6, tzinfo=zone)

    monkeypatch.setattr(ledger_module, "datetime", Stopped)
    ledger = created(where)
    for note in ("", 'moyenne d\'âge; DROP TABLE "x" -- :number %s', "\n" * 10_000):
        ledger.spend(G, note=note)
        entry = ledger.history[-1]
        assert entry.note == note
        assert entry.time == "2030-01-02T03:04:05+00:00"


def test_another_mind_sees_at_once_what_was_spent(where):
    one, other = created(where), dp.Ledger(where)
    for _ in range(2):
        one.spend(G)
        other.spend(G)
    with pytest.raises(dp.BudgetExceeded, match=r"of \d.* are spent, and this costs"):
        for _ in range(100):
            other.spend(G)
            one.spend(G)
    assert one.history == other.history
    assert one.can_spend(G) == other.can_spend(G) == dp.Ledger(where).can_spend(G) is False


def test_copies_share_the_budget(where):
    ledger = created(where)
    for again in (copy.copy(ledger), copy.deepcopy(ledger), pickle.loads(pickle.dumps(ledger))):
        before = len(ledger.history)
        again.spend(G)
        assert len(ledger.history) == before + 1


def test_a_copy_is_of_the_same_ledger_in_any_folder(tmp_path, monkeypatch):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        ledger = created("test.ledger", dataset=name)
    monkeypatch.chdir(tmp_path / "one")
    assert pickle.loads(pickle.dumps(ledger)).dataset == "other"
    ledger.spend(G)
    assert dp.Ledger("test.ledger").history == () and len(dp.Ledger(tmp_path / "other" / "test.ledger").history) == 1


def test_what_may_fail_needs_a_part_of_delta(where):
    ledger = created(where)
    with pytest.raises(dp.BudgetExceeded, match="sets no part of delta aside"):
        ledger.spend(dp.ApproximateDP(0.1, 1e-9))
    assert ledger.history == ()


@pytest.mark.parametrize(
    ("error", "message", "arguments"),
    [
        (TypeError, "^mechanism must be a Mechanism", {"mechanism": "Gaussian(1.0)"}),
        (ValueError, "^mechanism must be at least one release", {"mechanism": dp.Composition()}),
        (ValueError, "^count must be", {"count": 0}),
        (TypeError, "^note must be a string", {"note": None}),
        (ValueError, "^note must be at most 10,000 characters", {"note": "x" * 10_001}),
        (ValueError, "^note must be at most 10,000 characters", {"note": "\ud800"}),
        (ValueError, "^note must be at most 10,000 characters", {"note": "a\0b"}),
        (ValueError, "^neighbors must be 'replace'", {"mechanism": dp.FixedSizeSampled(G, 1, 10)}),
        (TypeError, "^mechanism must be one that", {"mechanism": Homemade(10.0)}),
        (TypeError, "^mechanism must be one that", {"mechanism": dp.PoissonSampled(Homemade(10.0), 0.5) + G}),
    ],
)
def test_bad_spends_spend_nothing(where, error, message, arguments):
    ledger = created(where)
    with pytest.raises(error, match=message):
        ledger.spend(**{"mechanism": G, **arguments})
    assert ledger.history == ()


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (ValueError, "^epsilon must be", {"epsilon": 0.0}),
        (ValueError, "^delta must be", {"delta": 1.0}),
        (ValueError, "^dataset must say which", {"dataset": " "}),
        (TypeError, "^dataset must be a string", {"dataset": None}),
        (ValueError, "^family must be", {"family": "pld"}),
        (ValueError, "^neighbors must be", {"neighbors": "remote"}),
        (ValueError, "^failure must be", {"failure": 1e-6}),
        (ValueError, "^others must be left out", {"others": G}),
        (ValueError, "^order must be", {"order": 1.0}),
    ],
)
def test_bad_budgets_make_no_ledger(where, error, message, options):
    with pytest.raises(error, match=message):
        created(where, **options)
    with pytest.raises(dp.LedgerError):
        dp.Ledger(where)


@pytest.mark.parametrize("where", [None, 3, b"bytes.ledger", ["a"]], ids=str)
def test_a_place_is_a_path_or_an_address(where):
    with pytest.raises(TypeError, match=r"^where must be a path or a URL"):
        dp.Ledger(where)


@pytest.mark.parametrize("where", ["", ":memory:", "a\0b", "mysql://host/name", "postgresql+psycopg2://host/name"])
def test_a_place_must_last(where):
    with pytest.raises(ValueError, match=r"^where must be"):
        created(where)


def test_expected_chooses_the_order_once(where):
    step = dp.PoissonSampled(dp.Gaussian(1.0), 0.01)
    created(where, 2.0, 1e-5, expected=step * 1000)
    alone = dp.PrivacyFilter(2.0, 1e-5, expected=step * 1000)
    for count in (1, 100, 700, 800, 880, 881, 882, 900):
        assert dp.Ledger(where).can_spend(step, count) == alone.can_spend(step, count)


def test_a_ledger_says_what_it_is(where):
    ledger = created(where)
    assert repr(ledger).startswith("<Ledger of 'test' in ") and "(1.0, 1e-06)" in repr(ledger)


def test_a_password_is_not_shown():
    pytest.importorskip("psycopg", reason="the extra ledger is not installed")
    pytest.importorskip("sqlalchemy", reason="the extra ledger is not installed")
    with pytest.raises(dp.LedgerError) as seen:
        dp.Ledger("postgresql://someone:secret@127.0.0.1:1/none")
    assert "someone" in str(seen.value) and "secret" not in str(seen.value)


def test_what_is_pickled_holds_no_password(monkeypatch):
    """Nor do copies in this process lose it."""
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("psycopg")
    from tightdp.ledger import place

    monkeypatch.setattr(dp.Ledger, "__init__", lambda self, where: setattr(self, "_where", where))
    for url in (
        "postgresql://someone:secret@127.0.0.1:1/none",
        "postgresql://someone@127.0.0.1:1/none?password=secret",
    ):
        ledger = dp.Ledger(url)
        ledger._store = place.open_ledger_store(url)
        assert b"secret" not in pickle.dumps(ledger) and "secret" not in ledger._store.name
        assert pickle.loads(pickle.dumps(ledger))._where == "postgresql+psycopg://someone@127.0.0.1:1/none"
        assert copy.copy(ledger)._where == copy.deepcopy(ledger)._where == url


def test_only_what_is_no_url_is_said_to_be_none(monkeypatch):
    sql = pytest.importorskip("sqlalchemy")
    pytest.importorskip("psycopg")
    for url in ("postgresql://someone:secret@host:port/none", "postgresql://[::1"):
        with pytest.raises(ValueError, match="where must be a URL as in") as error:
            dp.Ledger(url)
        assert "secret" not in str(error.value) and error.value.__cause__ is None

    def lacking(*given, **named):
        raise sql.exc.NoSuchModuleError("Can't load plugin: sqlalchemy.dialects:postgresql.psycopg")

    monkeypatch.setattr(sql, "create_engine", lacking)
    with pytest.raises(dp.LedgerError, match=r"NoSuchModuleError: Can't load plugin.*nothing was spent"):
        dp.Ledger("postgresql://someone:secret@127.0.0.1:1/none")


def test_each_entry_has_an_identifier_of_its_release(where):
    ledger = created(where)
    ledger.spend(G)
    ledger.spend(G, release="0123456789abcdef" * 2)
    first, second = (entry.release for entry in dp.Ledger(where).history)
    assert second == "0123456789abcdef" * 2 != first and len(first) == 32 and int(first, 16) >= 0
    for bad in ("", "0" * 31, "G" * 32, "0" * 31 + "\n"):
        with pytest.raises(ValueError, match="release must be 32 hexadecimal digits"):
            ledger.spend(G, release=bad)
    assert len(ledger.history) == 2


def test_a_release_has_one_hash_of_its_parameters(where):
    ledger = created(where)
    ledger.spend(G)
    (release,) = (entry.release for entry in ledger.history)
    assert ledger.read_parameters(release) is None
    for _ in range(2):  # the same hash again is nothing new
        ledger.record_parameters(release, "sha256:" + 64 * "1")
        assert dp.Ledger(where).read_parameters(release) == "sha256:" + 64 * "1"
    with pytest.raises(dp.BudgetExceeded, match="was paid for parameters sha256:111"):
        ledger.record_parameters(release, "sha256:" + 64 * "2")
    for bad in ("zz", "sha256:" + 63 * "1", 64 * "1"):
        with pytest.raises(ValueError, match=r"^parameters must be sha256: and 64 hexadecimal digits"):
            ledger.record_parameters(release, bad)


def test_a_release_is_spent_once(where):
    """Another process may have opened the ledger before the identifier was spent, so the charge itself checks it."""
    ledger, early = created(where), dp.Ledger(where)
    ledger.spend(G)
    (drawn,) = (entry.release for entry in ledger.history)
    ledger.spend(G, release="1" * 32)
    spent = ledger.spent
    for opened in (ledger, early, dp.Ledger(where), pickle.loads(pickle.dumps(dp.Ledger(where)))):
        for used in (drawn, "1" * 32):
            with pytest.raises(ValueError, match=f"^release must be .* {used} already; nothing was spent"):
                opened.spend(dp.Gaussian(100.0), release=used)
    assert len(ledger.history) == 2 and ledger.spent == spent
    early.spend(dp.Gaussian(100.0), release="2" * 32)
    assert [entry.release for entry in ledger.history] == [drawn, "1" * 32, "2" * 32]


def test_a_refused_spend_leaves_its_identifier_unused(where):
    ledger = created(where)
    with pytest.raises(dp.BudgetExceeded):
        ledger.spend(dp.Gaussian(0.1), release="1" * 32)
    ledger.spend(G, release="1" * 32)
    assert [entry.release for entry in dp.Ledger(where).history] == ["1" * 32]


def test_parameters_are_those_of_a_release_that_was_charged(where):
    ledger, early = created(where), dp.Ledger(where)
    for _ in range(2):
        with pytest.raises(ValueError, match=f"^release must be .* no entry of {'1' * 32}"):
            ledger.record_parameters("1" * 32, "sha256:" + 64 * "1")
    assert ledger.read_parameters("1" * 32) is None
    ledger.spend(G, release="1" * 32)
    early.record_parameters("1" * 32, "sha256:" + 64 * "1")
    assert ledger.read_parameters("1" * 32) == "sha256:" + 64 * "1"
