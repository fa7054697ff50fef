"""Sampled Gaussians with little noise, by how often the record takes part (docs/theory/closed-forms.md section 5)."""

from .engine import ENGINE as ENGINE
