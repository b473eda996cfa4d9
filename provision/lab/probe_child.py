"""Runs the shipped guest probe on a simulated guest's root, in a process of its own.

Standard input is the probe's source; anything but the shipped bytes is refused by the starter.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def main(root: str, libraries: str) -> None:
    """Write the probe's JSON to standard output."""
    from provision.lab import isolation  # noqa: PLC0415 - the path is set by the starter
    from provision.lab.guest_libraries import RecordedLibraries  # noqa: PLC0415

    source = sys.stdin.buffer.read()
    recorded = Path(libraries).read_text(encoding="utf-8")
    code = compile(source, "<pvectl probe>", "exec")
    names: dict[str, Any] = {"__name__": "pvectl_probe"}
    exec(code, names)  # noqa: S102 - the starter has compared its digest with the shipped probe's
    isolation.enclose(Path(root))
    sys.exit(names["main"](sys.stdout, root, RecordedLibraries(recorded, names)))
