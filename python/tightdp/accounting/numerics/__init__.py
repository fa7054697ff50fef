"""Arithmetic on ranges that is rounded outward, root finding, and the budget of work of a question."""
