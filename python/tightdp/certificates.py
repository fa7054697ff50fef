"""A certificate is a bound with all that a checker needs to prove both of its ends (docs/reference/certificate.md).

The checker is ``tightdp/verify.py``, which shares no code with the engines. A certificate does not say how a bound was
computed. It names the composition, the neighbouring relation, the given epsilon or delta, and both ends.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ._support import _check
from ._support.strict_json import check_json_entries, parse_json, read_json_value
from .composition import Composable, Composition
from .mechanisms.mechanism_json import from_mechanism_json, to_mechanism_json
from .options import Neighbors

FORMAT, VERSION = "tightdp certificate", 1
"""Name and version of the format of a certificate. The checker reads the name and the version."""
MOST_BYTES = 20_000
"""Largest number of characters of a certificate, which are one byte each. A certificate is short, so that a person can
read all of it."""
_ENTRIES = "format", "version", "composition", "neighbors", "epsilon", "delta"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A bound of epsilon at ``delta``, or of delta at ``epsilon``, which ``tightdp.verify`` can prove.

    ``Composition.certificate`` makes certificates. One of ``epsilon`` and ``delta`` is given, and the other is None.
    The value of the other lies between ``lower`` and ``upper``.

    Parameters
    ----------
    composition : the mechanisms with their counts.
    neighbors : the neighbouring relation, as in ``Composition.epsilon``.
    epsilon : the given epsilon, in nats, or None.
    delta : the given delta, in [0, 1), or None.
    lower, upper : the ends of the bound on epsilon or delta, whichever is None.

    The constructor checks nothing. ``from_json`` raises ValueError for text that does not hold a certificate.

    >>> certificate = (dp.PoissonSampled(dp.Gaussian(1.0), 0.01) * 1000).certificate(delta=1e-5)
    >>> f"{certificate.lower:.6f}, {certificate.upper:.6f}"
    '1.828237, 1.828237'
    """

    composition: Composition
    neighbors: Neighbors
    epsilon: float | None
    delta: float | None
    lower: float
    upper: float

    def to_json(self) -> str:
        """Returns the certificate as text. Raises ValueError if it has more than 20,000 characters."""
        ends = [end if end < math.inf else "inf" for end in (self.lower, self.upper)]
        plain = {
            "format": FORMAT,
            "version": VERSION,
            "composition": to_mechanism_json(self.composition)["parts"],
            "neighbors": self.neighbors,
            "epsilon": ends if self.epsilon is None else self.epsilon,
            "delta": ends if self.delta is None else self.delta,
        }
        text = json.dumps(plain, allow_nan=False)
        if len(text) > MOST_BYTES:
            raise ValueError(f"a certificate must have at most {MOST_BYTES:,} characters, got {len(text):,}")
        return text

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Returns the certificate that ``to_json`` wrote. Raises ValueError for other text, and proves nothing."""
        if not isinstance(text, str):
            raise ValueError(f"text must be a string, the JSON of a certificate, got {_check.describe_argument(text)}")
        plain = parse_json(text)
        check_json_entries("certificate", plain, _ENTRIES)
        if plain["format"] != FORMAT or type(plain["version"]) is not int or plain["version"] != VERSION:
            raise ValueError(f"certificate must be of version {VERSION} of {FORMAT!r}")
        composition = from_mechanism_json(
            Composable, {"type": "Composition", "parts": plain["composition"]}, "composition"
        )
        asked = "epsilon" if isinstance(plain["epsilon"], list) else "delta"
        ends, given = plain[asked], "delta" if asked == "epsilon" else "epsilon"
        if not isinstance(ends, list) or len(ends) != 2:
            raise ValueError("certificate must have a list of two numbers as epsilon or as delta")
        lower, upper = (math.inf if end == "inf" else read_json_value(float, end, asked) for end in ends)
        if not lower <= upper:
            raise ValueError(f"{asked} must have a lower end that is at most the upper end")
        read_json_value(Neighbors, plain["neighbors"], "neighbors")
        at = read_json_value(float, plain[given], given)
        if given == "delta" and not 0 <= at < 1:
            raise ValueError(f"delta must be a number in [0, 1), got {at!r}")
        epsilon, delta = (None, at) if asked == "epsilon" else (at, None)
        return cls(composition, plain["neighbors"], epsilon, delta, lower, upper)


def make_certificate(
    composition: Composition, epsilon: float | None, delta: float | None, options: Mapping[str, Any]
) -> Certificate:
    """Returns a certificate that bounds ``epsilon`` or ``delta``, whichever is None.

    ``composition`` and ``options`` are those of ``Composition.certificate``, which calls this function. Raises
    TypeError unless exactly one of ``epsilon`` and ``delta`` is None.

    >>> make_certificate(dp.Gaussian(2.0) * 1, None, 1e-5, {}).upper < 2.0
    True
    """
    neighbors: Neighbors = options.get("neighbors", "add_or_remove")
    if epsilon is None and delta is not None:
        found = composition.epsilon(delta, **options)
        return Certificate(composition, neighbors, None, float(delta), found.lower, found.upper)
    if delta is None and epsilon is not None:
        found = composition.delta(epsilon, **options)
        return Certificate(composition, neighbors, float(epsilon), None, found.lower, found.upper)
    raise TypeError("certificate() must be given either epsilon or delta")
