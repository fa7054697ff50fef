"""Questions about a composition: epsilon, delta, curves, calibration, and many settings at once.

Begin with ``question.py``, whose class asks the engines about both directions of a neighbouring relation. All other
modules use this class.
"""
