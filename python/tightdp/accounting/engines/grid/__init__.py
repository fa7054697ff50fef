"""Privacy losses on a lattice, composed by Fourier transforms (docs/theory/grid.md)."""

from .engine import ENGINE as ENGINE
