"""Clipping in one backward pass: norms of records' gradients without the gradients, then weighted sums.

Book-keeping (Bu, Wang, Zha and Karypis 2022, arXiv:2210.00038). Calls that use a trained parameter are recorded on the
way forward. One backward pass yields the gradients of their outputs and nothing else. From these and the inputs come
the norms, and then the sums of clipped gradients. Sums are of floats: arithmetic is idealised.
"""
