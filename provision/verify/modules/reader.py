"""Reads files, links and folders of the machine that it runs on; JSON on standard output.

One stdlib-only file for Python 3.8 and newer.  Arguments are patterns: ``PATH`` reads files, ``link:PATH`` the last
part of where links point, ``dir:PATH`` the names in folders.  The answer maps each path to its text, or to
``{"error": reason}``; for a folder to a list.  ``hex:PATH`` gives bytes, as hexadecimal text.
"""

from __future__ import annotations

import glob
import json
import os
import sys
from typing import Any, Callable, Dict, Sequence  # noqa: UP035 - it runs on Python 3.8 too

LIMIT = 1 << 20


def collect(patterns: Sequence[str], root: str = "/") -> Dict[str, Any]:  # noqa: UP006
    """Return what the patterns find, by kind and path; a pattern that finds nothing has no entry."""
    found: Dict[str, Any] = {}  # noqa: UP006
    prefix = root.rstrip("/")
    for pattern in patterns:
        kind, colon, rest = pattern.partition(":")
        if not colon or kind not in _READERS:
            kind, rest = "file", pattern
        for path in sorted(glob.glob(prefix + rest)):  # noqa: PTH207 - one way for strings with a root in front
            found[(kind + ":" if kind != "file" else "") + path[len(prefix) :]] = _one(kind, path)
    return found


def _one(kind: str, path: str) -> Any:
    try:
        return _READERS[kind](path)
    except OSError as error:
        return {"error": error.strerror or str(error)}


def _text(path: str) -> str:
    return _bytes(path).decode("utf-8", "replace")


def _bytes(path: str) -> bytes:
    with open(path, "rb") as stream:  # noqa: PTH123 - strings throughout
        return stream.read(LIMIT)


def _hex(path: str) -> str:
    return _bytes(path).hex()


def _link(path: str) -> str:
    return os.path.basename(os.readlink(path))  # noqa: PTH115, PTH119


_READERS: Dict[str, Callable[[str], Any]] = {  # noqa: UP006
    "file": _text,
    "hex": _hex,
    "link": _link,
    "dir": os.listdir,
}


def main() -> None:
    sys.stdout.write(json.dumps(collect(sys.argv[1:])) + "\n")


if __name__ == "__main__":
    main()
