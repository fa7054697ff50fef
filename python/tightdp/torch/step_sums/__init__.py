"""Sums of one step of each algorithm; ``step_sums.py`` chooses among them by the plan."""
