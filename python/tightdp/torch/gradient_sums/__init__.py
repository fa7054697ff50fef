"""Sums of clipped per-example gradients, whatever the layers are, and the noise that is added to them."""
