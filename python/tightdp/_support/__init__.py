"""Helpers that all packages of tightdp use and no user imports.

``_check`` refuses bad arguments. ``number_texts`` rounds printed numbers to the safe side, and ``rounded_division``
rounds quotients down. ``device_probe`` finds the accelerator, and ``headers`` finds the installed C++ headers.
``fork_lock`` and ``process_owner`` protect objects in a forked child. ``file_lock`` locks files and folders, and
``files`` and ``strict_json`` read files.
"""
