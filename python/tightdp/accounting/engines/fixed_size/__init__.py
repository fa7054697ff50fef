"""Samples of fixed size against an adversary who watches (docs/theory/adaptive.md)."""

from .engine import ENGINE as ENGINE
