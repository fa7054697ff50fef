"""The privacy random variables of Gopi, Lee and Wutschitz, on the host and on a device (docs/theory/prv.md)."""

from .engine import ENGINE as ENGINE
