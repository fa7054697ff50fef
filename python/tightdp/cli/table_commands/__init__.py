"""Commands that read tables, train models on them, and say what was released."""
