"""The engines: each turns the parts of a composition, a direction and a question into a certified bound, or explains
why it cannot.

``base`` holds the interface that they share; ``auto`` chooses among them.
"""
