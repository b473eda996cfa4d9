"""The program that goes to a guest: one Python text that holds every module of ``onboard``.

It is run as ``python3 -I - ARGUMENTS`` with the text on standard input, and leaves no file there.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from provision.guest.importer import PACKAGE

_TAIL = """
TextImporter.install(TEXTS)

from provision.guest.onboard.main import main

if __name__ == "__main__":
    sys.exit(main())
"""


@cache
def probe_source() -> str:
    """Return the program.  The same modules give the same text, byte for byte."""
    texts = "".join(f"    {name!r}: {text!r},\n" for name, text in sorted(_modules().items()))
    head = files("provision.guest").joinpath("importer.py").read_text(encoding="utf-8")
    return f"{head}\n\nTEXTS = {{\n{texts}}}\n{_TAIL}"


def _modules() -> dict[str, str]:
    folder = files(PACKAGE)
    found = {}
    for entry in folder.iterdir():
        stem, dot, suffix = entry.name.rpartition(".")
        if dot and suffix == "py":
            name = PACKAGE if stem == "__init__" else f"{PACKAGE}.{stem}"
            found[name] = entry.read_text(encoding="utf-8")
    return found
