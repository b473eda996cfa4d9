"""Runs the shipped guest probe on a simulated guest's root, in a process of its own.

Standard input is the probe's source; anything but the shipped bytes is refused by the starter.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def main(root: str, libraries: str, *argv: str) -> None:
    """Write the probe's JSON to standard output."""
    source = sys.stdin.buffer.read()
    names: dict[str, Any] = {"__name__": "pvectl_probe"}
    exec(compile(source, "<pvectl probe>", "exec"), names)  # noqa: S102 - the starter has compared its digest
    from provision.lab import isolation  # noqa: PLC0415 - after the probe has put its own modules in front
    from provision.lab.guest_libraries import RecordedLibraries  # noqa: PLC0415

    recorded = RecordedLibraries(Path(libraries).read_text(encoding="utf-8"))
    isolation.enclose(Path(root))
    sys.exit(names["main"](argv, sys.stdout, root, recorded))
