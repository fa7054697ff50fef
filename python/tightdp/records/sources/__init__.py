"""Sources of records: arrays, files, tables and data frames that are read block by block."""
