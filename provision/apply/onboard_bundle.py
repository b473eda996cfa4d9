"""The dead-man's program as it travels: its modules joined to one readable file.

The modules share one namespace there, so that their imports of each other fall away; nothing else of them changes.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
MODULES = ("onboard/host.py", "onboard/run.py", "onboard/once.py", "onboard/promote.py", "deadman_program.py")
"""In an order in which each finds what it needs above itself."""


@cache
def program() -> bytes:
    """Return the program as it lies on the host."""
    parts = [_without_own_imports((HERE / name).read_text(encoding="utf-8")) for name in MODULES]
    head = (
        '"""pvectl\'s dead-man and what it needs, joined from its modules."""\n\nfrom __future__ import annotations\n'
    )
    return "\n\n".join([head, *parts]).encode()


def _without_own_imports(source: str) -> str:
    """Drop the imports that a single file cannot have: of its own parts, and of the future below the top."""
    lines = source.splitlines(keepends=True)
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("__future__", "provision"):
            for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[number] = ""
    return "".join(lines)
