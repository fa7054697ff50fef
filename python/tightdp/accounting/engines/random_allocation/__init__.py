"""Random allocation (docs/theory/allocation.md)."""

from .engine import ENGINE as ENGINE
