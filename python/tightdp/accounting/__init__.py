"""Certified bounds on the privacy of a composition. Each question goes to the engine that answers it at the least cost.

A composition's methods call ``questions``, and the ``engines`` compute the answers. ``pairs`` builds the pairs of
distributions that the engines are asked about. ``running_accounts`` holds accounts that grow, and budgets for releases
that depend on earlier ones.
"""
