"""The sums of a step, for each algorithm. ``step_sums.py`` chooses among them by the plan."""
