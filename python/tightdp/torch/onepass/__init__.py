"""Clipping in one backward pass: the norms of gradients are computed without the gradients, and then weighted sums.

The method is called book-keeping (Bu, Wang, Zha and Karypis 2022, arXiv:2210.00038). The forward pass records the calls
that use a trained parameter. One backward pass computes only the gradients of the outputs of these calls. These
gradients and the inputs of the calls give the norms, and then the sums of clipped gradients. Sums of floats are
idealised in the account, and ``products.py`` computes exact sums.
"""
