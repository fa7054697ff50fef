"""Clipping of arrays that live on a CUDA device."""
