"""Loaders that draw batches, the reader of single records, and the places of records in a physical batch."""
