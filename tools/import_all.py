"""Imports every module of the installed package, except the modules that need a missing library.

python tools/import_all.py
"""

import importlib
import pkgutil
import sys

import tightdp


def missing_library(name: str) -> str | None:
    """Imports a module. Returns the name of the library that the module needs and that is missing, or None."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        library = (error.name or "").split(".")[0]
        if library in ("", "tightdp"):
            raise
        return library
    return None


def main() -> None:
    names = [module.name for module in pkgutil.walk_packages(tightdp.__path__, "tightdp.", lambda name: None)]
    names = [name for name in names if not name.endswith("__main__")]
    missing = [library for library in map(missing_library, names) if library]
    print(f"Python {sys.version.split()[0]} imports {len(names) - len(missing)} of {len(names)} modules;", end=" ")
    print("not installed:", ", ".join(sorted(set(missing))) or "nothing")


if __name__ == "__main__":
    main()
