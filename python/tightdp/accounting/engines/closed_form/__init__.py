"""Privacy curves with a formula, computed with ranges that hold all roundings (docs/theory/closed-forms.md)."""

from .engine import ENGINE as ENGINE
