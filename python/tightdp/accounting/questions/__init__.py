"""Questions about a composition: epsilon, delta, curves, calibration, and many settings at once.

Begin with ``question.py``, which asks for both directions of a relation; all other modules ask it.
"""
