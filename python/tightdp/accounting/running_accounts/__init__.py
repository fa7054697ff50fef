"""Accounts that grow: the accountant, and filters and odometers (docs/theory/filters.md).

Filters and odometers serve releases that are chosen in the light of earlier releases.
"""
