"""Bounds of sampled Gaussians with little noise, as sums over the number of steps in which the record takes part
(docs/theory/closed-forms.md section 5)."""

from .engine import ENGINE as ENGINE
