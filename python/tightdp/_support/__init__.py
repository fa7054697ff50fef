"""Helpers that all packages of tightdp use and no user imports: checks of arguments, locks, files, texts of numbers,
devices.

``_check`` refuses bad arguments, ``number_texts`` rounds printed numbers to the safe side, and ``device_probe`` and
``headers`` find the accelerator and the installed C++ headers. ``fork_lock`` and ``process_owner`` guard state in a
forked child. ``files``, ``file_lock`` and ``strict_json`` write, lock and read the files that outlive a run.
"""
