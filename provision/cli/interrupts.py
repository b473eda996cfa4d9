"""Ctrl-C while a host is being changed: the first lets the current step end, the second stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from provision.cli.output import progress


class Interrupts:
    """Until :meth:`arm` is called Ctrl-C stops at once: at a question there is no step to end."""

    def __init__(self) -> None:
        self._is_armed = False
        self._was_pressed = False

    def arm(self) -> None:
        self._is_armed = True

    def pressed(self) -> bool:
        return self._was_pressed

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        if not self._is_armed or self._was_pressed:
            raise KeyboardInterrupt
        self._was_pressed = True
        progress("interrupted: the current step comes to its end first; press Ctrl-C again to stop at once")


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Handle SIGINT in the main thread; elsewhere nothing is handled."""
    handler = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield handler
        return
    before = signal.signal(signal.SIGINT, handler.handle)
    try:
        yield handler
    finally:
        signal.signal(signal.SIGINT, before)
