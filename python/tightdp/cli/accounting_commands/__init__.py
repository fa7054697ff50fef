"""Commands that compute bounds for a composition."""
