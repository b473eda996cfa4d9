"""The one place where words become a line for a shell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def join(argv: Sequence[str]) -> str:
    """Return ``argv`` as one line that a POSIX shell splits into the same words."""
    return shlex.join(argv)
