"""Releases over arrays: clipped sums with noise, exact sums, noise itself, on the host and on a device."""
