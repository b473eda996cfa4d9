"""Programs that travel on a command line: testinfra's ``host.run`` has no standard input to give.

A program is compressed and written in an alphabet that every shell passes on as it is.
"""

from __future__ import annotations

import base64
import zlib
from functools import cache
from importlib.resources import files
from typing import Final

from provision.errors import PvectlError

LONGEST: Final = 128 * 1024 - 2048
"""Bytes that Linux takes as one argument (MAX_ARG_STRLEN), less what shells and ssh put around it."""


@cache
def carried(source: str) -> str:
    """Return what ``python3 -I -c`` is given to run ``source``; its own arguments follow as ``sys.argv[1:]``.

    Raises PvectlError where it does not fit on a command line.
    """
    packed = base64.b64encode(zlib.compress(source.encode("utf-8"), 9)).decode("ascii")
    text = f'import base64,zlib;exec(compile(zlib.decompress(base64.b64decode("{packed}")),"<pvectl>","exec"))'
    if len(text) > LONGEST:
        raise PvectlError(
            f"Unable to carry a program of {len(source)} bytes on a command line: it takes {len(text)} of {LONGEST}",
            "use the pvectl:// backend, which gives it on standard input",
        )
    return text


@cache
def reader_source() -> str:
    """Return the reader of files as a program."""
    return files("provision.verify.modules").joinpath("reader.py").read_text(encoding="utf-8")
