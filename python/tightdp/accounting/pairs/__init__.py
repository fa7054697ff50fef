"""Dominating pairs of mechanisms under a neighbouring relation, members of classes, and facts about a pair's curve.

Begin with ``neighbors.py``, which translates a mechanism to a neighbouring relation. ``replacement.py`` and
``pair_orders.py`` hold the pairs that the translation needs. ``substitutes.py`` and ``group_mixtures.py`` hold pairs
that dominate a mechanism, and ``class_members.py`` lists members of a class of mechanisms.
"""
