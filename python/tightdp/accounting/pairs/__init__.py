"""Dominating pairs of mechanisms under a neighbouring relation, members of classes, and facts about a pair's curve.

Begin with ``neighbors.py``, which translates a mechanism to a neighbouring relation. ``replacement.py`` and
``orders.py`` hold the pairs that the translation needs. ``dominating.py`` and ``groups.py`` hold pairs that dominate a
mechanism, and ``members.py`` lists members of a class of mechanisms.
"""
