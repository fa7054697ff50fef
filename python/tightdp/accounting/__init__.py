"""mechanism -> composition -> question -> engine chosen by cost -> certified bound.

``questions`` is what a composition's methods ask; ``engines`` answer; ``pairs`` says which pairs of distributions they
are asked about; ``adaptive`` holds budgets for releases that depend on earlier ones.
"""
