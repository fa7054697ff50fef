"""Words of what a table's model depends on: the checker of a model takes what its writers make, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tightdp as dp
from tightdp.estimators.shared.public_facts import describe_public_fact_of_bounds
from tightdp.records.column_encodings import CategoryColumn, NumberColumn
from tightdp.statement.column_words import state_fact_of_categories, state_fact_of_labels, state_facts_of_columns

COLUMNS = (
    NumberColumn("age", 18.0, 90.0, 40.0),
    CategoryColumn("clinic", ("north", "south")),
    NumberColumn("x; y, by noisy counts", 0.0, 1.0),
)
FACTS = [state_fact_of_labels(("high", "low")), *state_facts_of_columns(COLUMNS)]
RUN = dp.Gaussian(5.0) * 1


def model(public, released=(), taken=()):
    """A model of these columns whose statement says that."""
    statement = dp.Statement("m", RUN.epsilon(1e-6), 1e-6, RUN, public=public, released=released, taken=taken)
    return dp.TableModel("svm", "y", ("high", "low"), COLUMNS, np.zeros((1, 4)), np.zeros(1), statement)


def test_each_fact_may_be_declared_or_learned_and_labels_and_categories_may_be_taken():
    assert [fact.name for fact in FACTS] == [
        "labels", "bounds of age", "missing numbers of age", "categories of clinic", "bounds of x; y, by noisy counts",
    ]  # fmt: skip
    for chosen in range(len(FACTS)):
        public = {fact.name: fact.declared_text for fact in FACTS}
        model(public)
        fact = FACTS[chosen]
        model({**public, fact.name: fact.occurring_text}, taken=(fact.name,))
        del public[fact.name]
        for note in ("", "this cannot be right"):
            model(public, released=("the weights", fact.describe_release(note)))
        with pytest.raises(ValueError, match="statement must say how"):
            model(public)


@pytest.mark.parametrize("chosen", range(len(FACTS)))
def test_words_of_another_value_are_refused(chosen):
    fact = FACTS[chosen]
    other = replace(fact, value=f"{fact.value}1")
    public = {each.name: each.declared_text for each in FACTS}
    for said in (other.declared_text, other.occurring_text, fact.value, f"{fact.declared_text}, or so"):
        with pytest.raises(ValueError, match=r"public must say of|taken must name"):
            model({**public, fact.name: said})
    del public[fact.name]
    for line in (other.describe_release(), other.describe_release("1"), f"{fact.describe_release()}, or so"):
        with pytest.raises(ValueError, match="released must say of"):
            model(public, released=(line,))
    assert sum(each.is_about(fact.describe_release()) for each in FACTS) == 1


@pytest.mark.parametrize("low", [0.0, 18.0, 18.123456789, 1.7e9, 1e300, 5e-324, -1e22, 123456789012345678.0])
def test_numbers_of_a_column_are_read_back_from_the_words(low):
    """They had six digits: 1700000000 to 1700003600 was "1.7e+09 to 1.7e+09", and other bounds fitted these words."""
    high = np.nextafter(low, np.inf)
    bounds, missing = state_facts_of_columns([NumberColumn("t", low, high, low)])
    assert [float(part) for part in bounds.value.split(" to ")] == [low, high]
    assert float(missing.value) == low
    (other,) = state_facts_of_columns([NumberColumn("t", low, np.nextafter(high, np.inf))])
    assert other.value != bounds.value
    assert describe_public_fact_of_bounds((low, high)) == f"[{bounds.value.replace(' to ', ', ')}]"


def test_whole_numbers_have_no_point():
    assert state_facts_of_columns([NumberColumn("age", 18.0, 90.0)])[0].declared_text == "declared: 18 to 90"
    assert (
        state_facts_of_columns([NumberColumn("t", 1700000000.0, 1700003600.0)])[0].value == "1700000000 to 1700003600"
    )


LISTS = [[], [""], ["", ""], ["A, B", "C"], ["A", "B", "C"], ["A", "B, C"], ["A, B, C"], ['"A, B"', "C"], ["A ", " B"]]
LISTS += [["A", "  B"], ["none was frequent, so the column is left out"], ["a" * k for k in range(1, 30)]]
LISTS += [[*LISTS[-1][:-1], "b"], [*LISTS[-1][:20], "and 9 more"], LISTS[-1][:20], [*LISTS[-1][:19], "and 1 more"]]


def test_different_categories_have_different_words():
    """Joined by commas, ["A, B", "C"] and ["A", "B", "C"] were one text, and so were lists that differ behind 20."""
    words = [state_fact_of_categories("clinic", values).value for values in LISTS]
    assert len(set(words)) == len(LISTS)
    assert words[3:5] == ['"A, B", C', "A, B, C"]
