"""Renyi differential privacy: upper bounds of moments, and the optimal conversion (docs/theory/conversions.md)."""

from .engine import ENGINE as ENGINE
