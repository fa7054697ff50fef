"""The random numbers of a run: the key and its streams, the global generators, and the processes that draw."""
