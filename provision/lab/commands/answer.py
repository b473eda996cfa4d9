"""What an emulated command says."""

from __future__ import annotations

from typing import NamedTuple


class Answer(NamedTuple):
    """Exit status and both outputs of one command."""

    rc: int = 0
    out: str = ""
    err: str = ""


def fail(message: str, rc: int = 1) -> Answer:
    """Return a failure with one line on standard error."""
    return Answer(rc, "", message.rstrip("\n") + "\n")
