"""Samples of fixed size against an adversary who sees the earlier outputs (docs/theory/adaptive.md)."""

from .engine import ENGINE as ENGINE
