"""Records that are read: arrays, tables and blocks, each cell and each record by itself."""
