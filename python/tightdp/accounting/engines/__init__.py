"""The engines, each of which bounds epsilon or delta of a composition in one direction, or explains why it cannot.

``engine_interface`` holds the interface that all engines share, and ``auto`` chooses among the engines.
"""
