"""Privacy curves with a formula. They are computed with ranges, which hold all roundings (docs/theory/closed-forms.md).
"""

from .engine import ENGINE as ENGINE
