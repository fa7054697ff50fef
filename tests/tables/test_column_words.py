"""Words of what a table's model depends on: the checker of a model takes what its writers make, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tightdp as dp
from tightdp.records.columns import Category, Number
from tightdp.statement.column_words import fact_of_labels, facts_of_columns

COLUMNS = (
    Number("age", 18.0, 90.0, 40.0),
    Category("clinic", ("north", "south")),
    Number("x; y, by noisy counts", 0.0, 1.0),
)
FACTS = [fact_of_labels(("high", "low")), *facts_of_columns(COLUMNS)]
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
