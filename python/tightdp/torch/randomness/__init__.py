"""Random numbers of a run: the key with its streams, PyTorch's generators, and which process draws."""
