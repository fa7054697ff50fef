"""Commands that ask about a composition."""
