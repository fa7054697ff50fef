"""The two lattices of the grid engine, their composition and their curve, in plain NumPy (docs/theory/grid.md)."""

import numpy as np


def knots(atoms, h, first, cells):
    """Masses of cells and points of the lattice x_i = i h: (mass, spread) of each cell, mass of each point."""
    mass, spread, point = np.zeros(cells), np.zeros(cells), np.zeros(cells + 1)
    for y, p in atoms:
        i = int(np.floor(y / h)) - first
        if y == (first + i) * h:
            point[i] += p
        else:
            mass[i] += p
            spread[i] += -p * np.expm1((first + i) * h - y)
    return mass, spread, point


def pessimistic(mass, spread, point, h):
    """Each cell's mass moved to its ends so that mass and ratio stay."""
    w = point.copy()
    right = spread / -np.expm1(-h)
    w[:-1] += mass - right
    w[1:] += right
    return w


def curve(w, h, first, epsilons):
    """delta of weights w on (first + i) h."""
    x = (first + np.arange(len(w))) * h
    return np.array([np.sum(w * -np.expm1(np.minimum(e - x, 0.0))) for e in np.atleast_1d(epsilons)])


def compose(w, k):
    """The k-fold convolution, term by term."""
    total = np.ones(1)
    for _ in range(k):
        total = np.convolve(total, w)
    return total


def exact(atoms, epsilons):
    """delta of atoms (loss, mass) by its definition."""
    y, p = np.array([a[0] for a in atoms]), np.array([a[1] for a in atoms])
    return np.array([np.sum(p * -np.expm1(np.minimum(e - y, 0.0))) for e in np.atleast_1d(epsilons)])
