"""The sums of gradients in a step, for each algorithm. ``step_sums.py`` chooses the kind of sum by the plan."""
