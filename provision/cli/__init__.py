"""The command line.  The only package that prints, asks and exits."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> None:
    """Run ``pvectl`` and exit the process with a documented code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    from provision.cli.app import run

    sys.exit(run(arguments))
