"""Records in blocks: in files, memory maps or on other machines, read again for each pass."""
