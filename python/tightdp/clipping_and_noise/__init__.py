"""Releases of sums over arrays, on the host and on a device: clipping, exact sums, noise and random numbers."""
