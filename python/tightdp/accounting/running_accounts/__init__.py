"""Accounts that grow: the accountant, filters and odometers for releases that are chosen in the light of earlier ones
(docs/theory/filters.md).
"""
