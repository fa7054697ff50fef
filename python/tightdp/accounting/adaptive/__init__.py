"""Releases that are chosen in the light of earlier ones: filters and odometers (docs/theory/filters.md)."""
