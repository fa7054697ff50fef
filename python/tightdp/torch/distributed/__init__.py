"""Training by several processes (ranks) of ``torch.distributed``, on one machine or many.

All ranks draw the same batches from one key and hold the same model. Each rank adds up the clipped gradients of its
share of the batch in integers, and adds the noise to its share of the coordinates. One all-reduce adds up the integers
of all ranks. The guarantee and its proof are in docs/theory/training.md, section 6.
"""
