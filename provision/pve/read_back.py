"""Look until something is there, although the host may not answer for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from provision.errors import PveError, RemoteError
from provision.pve.answers import NO_ANSWER
from provision.pve.tasks import Clock

READ_BACK_S: Final = 60.0
"""How long a write without an answer may still take effect before it counts as not done."""
_PAUSE_S: Final = 2.0

T = TypeVar("T")


def read_back(look: Callable[[], T | None], clock: Clock, end: float) -> T | None:
    """Return the first thing that ``look`` finds; ``None`` where there was none until ``end``.

    Raises what ``look`` raises, unless it is the same trouble as before: the next try may get through.
    """
    while True:
        try:
            found = look()
        except (RemoteError, PveError) as error:
            if isinstance(error, PveError) and error.status not in NO_ANSWER:
                raise
            found = None
        if found is not None or clock.now() >= end:
            return found
        clock.sleep(_PAUSE_S)
