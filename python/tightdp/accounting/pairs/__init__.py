"""Dominating pairs of mechanisms under a neighbouring relation, members of classes, and facts about a pair's curve.

Begin with ``neighbors.py``, which translates a mechanism to a relation. ``replaced.py`` and ``orders.py`` hold the
pairs that it needs, ``dominating.py`` and ``groups.py`` those that dominate a mechanism, ``members.py`` those of a
class.
"""
