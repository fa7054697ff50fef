"""Privacy losses on a grid, composed by Fourier transforms (docs/theory/grid.md)."""

from .engine import ENGINE as ENGINE
