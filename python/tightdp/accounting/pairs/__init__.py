"""Dominating pairs: what a neighbouring relation makes of a mechanism, and which pairs stand for a class."""
