"""What proofs assume of a mechanism is declared by it, and asked for by what combines mechanisms."""

import pytest

import tightdp as dp
from tightdp.composition import Mechanism
from tightdp.options import EVERY, NEIGHBORS, SIZED


def test_a_mechanism_that_declares_nothing_cannot_be_defined():
    for declared in ({}, {"relations": EVERY, "symmetric": True}, {"relations": EVERY, "any_size": True}):
        with pytest.raises(TypeError, match="must declare"):
            type("Undeclared", (Mechanism,), declared)


def test_what_declares_no_relation_is_asked_under_none():
    made = type("Unproved", (Mechanism,), {"relations": frozenset(), "symmetric": False, "any_size": False})()
    for relation in NEIGHBORS:
        with pytest.raises(ValueError, match=r"^neighbors must be none at all"):
            made.epsilon(1e-5, neighbors=relation)
    with pytest.raises(ValueError, match="one that runs on a sample"):
        dp.PoissonSampled(made, 0.1)


def test_batches_by_position_are_asked_only_where_all_others_keep_their_steps():
    """Steps +1, -1, ... without their first record are a Gaussian's pair of far more than the tree's."""
    tree = dp.TreeAggregation(3.0, 100)
    assert tree.relations == SIZED
    for run in (tree, tree * 2 + dp.Laplace(1.0), tree.group(2), dp.RepeatAndSelect(tree, 3.0)):
        for relation in ("add_or_remove", "add", "remove"):
            with pytest.raises(ValueError, match=r"^neighbors must be 'replace' or 'replace_special' for .*own_steps"):
                run.epsilon(1e-5, neighbors=relation)
            with pytest.raises(ValueError, match=r"^neighbors must be"):
                dp.PrivacyFilter(1.0, 1e-5, neighbors=relation).can_spend(tree)
        assert run.epsilon(1e-5, neighbors="replace").upper > 0
    gaussians, own = dp.Gaussian(3.0) * 7, dp.TreeAggregation(3.0, 100, own_steps=True)
    for relation in ("replace", "replace_special"):
        for made, same in ((tree, gaussians), (tree * 3 + dp.Gaussian(3.0), dp.Gaussian(3.0) * 22)):
            assert made.epsilon(1e-5, neighbors=relation) == same.epsilon(1e-5, neighbors=relation)
        grown = (dp.Gaussian(1.0) * 7).epsilon(1e-5, neighbors=relation)
        assert tree.group(3).epsilon(1e-5, neighbors=relation) == grown
    for relation in NEIGHBORS:
        assert own.epsilon(1e-5, neighbors=relation) == gaussians.epsilon(1e-5, neighbors=relation)
