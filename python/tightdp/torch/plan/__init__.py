"""The plan of a run, with its steps, their noise and their charge, and the account of what was charged so far."""
