"""Our accounts and releases behind the interfaces of other libraries.

Each module is named after its library, needs that library installed, and is imported by name alone:
``from tightdp.adapters import opacus``.
"""
