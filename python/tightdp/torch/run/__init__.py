"""The run: its steps, what it saves and takes up again, and the statement at its end."""
