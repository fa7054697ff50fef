"""Plain versions of what the core computes: short, slow, and checked by eye."""
