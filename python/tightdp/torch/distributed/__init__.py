"""Training by several processes (ranks) of ``torch.distributed``, on one machine or many.

All ranks draw the same batches from one key and hold the same model. Each clips its share of the batch, in integers,
and adds the noise of its share of the coordinates; one all-reduce adds everything up. The statement and its proof:
docs/theory/training.md, section 6.
"""
