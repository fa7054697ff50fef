"""Accounts that grow: the accountant, and filters and odometers (docs/theory/filters.md).

Filters and odometers serve releases whose choice may depend on earlier outputs.
"""
