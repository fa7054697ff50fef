"""A table of ages, with a label that follows from them."""

import numpy as np


def write_people(folder, count):
    """Writes ``count`` people to people.csv in a folder, and returns the file."""
    ages = np.random.default_rng(0).integers(20, 80, count)
    lines = [f"{age},{'yes' if age > 50 else 'no'}" for age in ages]
    (folder / "people.csv").write_text("\n".join(["age,ill", *lines]) + "\n")
    return folder / "people.csv"
