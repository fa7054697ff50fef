"""The private training run: its steps, the checkpoint from which it continues, and the statement at its end."""
