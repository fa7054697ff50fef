"""Truth by enumeration, written from what the mechanisms' docstrings say and from nothing that the engines use.

For small data sets: every neighbour, every outcome of the sampler's coins, the two laws of the output, and from them
any curve. A law of a pair of neighbours bounds what may be claimed from one side: no upper end may lie below it.

`data_sets` lists neighbours, `samplers` the coins, `noise` the laws of what is added, `classes` members of the classes,
`repetitions` the best of several runs, `mechanisms` joins these for each public class, `pairs` computes with laws,
`truth` composes them, `ceilings` bounds all neighbours from above, `cases` draws runs and says what was drawn, `check`
asks the library, `certified` asks the checker of certificates, and `widths` says which answers are needlessly wide.
`hunt` draws and checks without end: a wrong end fails it, and a needlessly wide one is printed (`--wide` fails for
both). `tools/mutations.py` tries whether errors show.
"""
