"""Batches: the loaders that draw records, the reader of one record at a time, and where each record lies in a batch."""
