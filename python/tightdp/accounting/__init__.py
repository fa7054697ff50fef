"""mechanism -> composition -> question -> engine chosen by cost -> certified bound.

A composition's methods call ``questions``; ``engines`` answer; ``pairs`` builds the pairs of distributions that they
are asked about; ``running_accounts`` holds accounts that grow and budgets for releases that depend on earlier ones.
"""
