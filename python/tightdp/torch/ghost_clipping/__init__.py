"""Clips gradients in one backward pass. The norms of gradients are computed without forming the gradients themselves.

The method is called ghost clipping. The form used here is book-keeping (Bu, Wang, Zha and Karypis 2022,
arXiv:2210.00038). The forward pass records the calls that use a trained parameter. One backward pass computes only the
gradients of the losses with respect to the outputs of these calls. These gradients and the inputs of the calls give the
norms, and then the sums of clipped gradients. ``clipping.py`` computes sums of floats, whose roundings the account
leaves out, and ``products.py`` computes exact sums.
"""
