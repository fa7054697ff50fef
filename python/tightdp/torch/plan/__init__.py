"""Plan of a run: its steps, their noise and their charge; and the account that the run keeps of it."""
