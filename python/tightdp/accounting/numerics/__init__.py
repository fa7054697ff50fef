"""Arithmetic rounded outward, and the boundary of a monotone condition."""
