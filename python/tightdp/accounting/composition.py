"""A lazily merged multiset of mechanisms and the questions one asks of it."""
