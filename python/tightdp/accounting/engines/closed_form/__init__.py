"""Privacy curves with a formula, on ranges so that rounding is accounted for (docs/theory/closed-forms.md)."""

from .engine import ENGINE as ENGINE
