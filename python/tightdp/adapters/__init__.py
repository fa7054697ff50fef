"""Offers tightdp's accounts and releases through the interfaces of other libraries.

Each module is named after a library. All modules but prv_accountant need their library to be installed. ``import
tightdp`` imports none of these modules, so write ``from tightdp.adapters import dp_accounting``.
"""
