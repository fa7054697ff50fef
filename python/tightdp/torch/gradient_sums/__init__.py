"""Sums of clipped per-example gradients for any kind of layer, and the noise that is added to the sums."""
