"""Our accounts and releases behind the interfaces of other libraries.

Each module is named after its library, needs that library installed (prv_accountant's does not), and is imported by
name alone: ``from tightdp.adapters import dp_accounting``.
"""
