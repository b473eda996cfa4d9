"""One message of a kernel log."""

from __future__ import annotations

from dataclasses import dataclass

from provision.evidence import Maybe
from provision.readers.kernel_log_prefix import KERNEL, NO_LEVEL, Form
from provision.readers.kernel_log_time import NO_TIME, Moment


@dataclass(frozen=True, slots=True)
class Record:
    """One message, its wrapped and continued lines joined with single blanks."""

    line: int
    """Line at which it begins, from 1."""
    text: str
    """Without time, level, host and process; at most ``MAX_TEXT`` characters."""
    time: Maybe[Moment] = NO_TIME
    uptime: float | None = None
    """Seconds since boot; ``None`` where the line has none."""
    level: Maybe[str] = NO_LEVEL
    process: str = KERNEL
    form: Form = "plain"
    device: str | None = None
    """Address of the PCI device that /dev/kmsg or the journal names beside the message."""
    boot: int = 0
    """Number of the boot within the text, from 0."""
    repeats: int = 0
    """How many more messages differ only in numbers and were counted instead of kept."""
    last_line: int = 0
    """Line of the last of them; 0 where there is none."""
    last_time: Maybe[Moment] = NO_TIME

    @property
    def count(self) -> int:
        return 1 + self.repeats
