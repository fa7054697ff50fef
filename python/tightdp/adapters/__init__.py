"""Offers tightdp's accounts and releases through the interfaces of other libraries.

Each module is named after a library, and needs this library to be installed (except for prv_accountant). ``import
tightdp`` imports none of these modules: write ``from tightdp.adapters import dp_accounting``.
"""
