"""The engines: each turns (parts, direction, query) into a certified bound, or refuses with a reason.

``base`` holds the seam they share; ``auto`` picks one.
"""
