"""Our accounts and releases behind the interfaces of other libraries.

Each module is named after a library and needs it installed (except for prv_accountant). ``import tightdp`` imports none
of them: write ``from tightdp.adapters import dp_accounting``.
"""
