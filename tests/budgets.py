"""Budgets that tests of a gate's numbers need."""


class Unlimited:
    """A budget that covers every charge, for tests of what is released and not of what is charged."""

    def spend(self, mechanism):
        """Accepts any mechanism."""
