"""Reads records from arrays, tables and blocks. Each cell and each record is read by itself."""
