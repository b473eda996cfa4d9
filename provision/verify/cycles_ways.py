"""What the cycles are given: VMs, times, and everything that they ask of the world."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from provision.evidence import Frozen, Maybe
from provision.guest.facts import GuestFacts
from provision.pve.session import PveSession
from provision.remote.session import Session, Target


class VmTask(Frozen):
    """One VM that is to be stopped and started."""

    vmid: int
    target: Target
    gpus: tuple[tuple[int, str], ...]
    """Number of ``hostpciN`` and the GPU's address on the host."""
    functions: tuple[str, ...]
    """Every host function that it may get, GPUs among them."""


class CycleOptions(Frozen):
    """Times in seconds."""

    count: int
    reset: bool = False
    stop_timeout: float = 900.0
    boot_timeout: float = 900.0
    settle_timeout: float = 300.0
    """From the guest's first answer until its driver has every GPU: eight of them take tens of seconds."""
    poll: float = 2.0


@dataclass(frozen=True)
class Ways:
    """Everything that the cycles ask of the world."""

    session: Session
    pve: PveSession
    host: str
    connect: Callable[[Target], Session]
    probe: Callable[[int, Target], Maybe[GuestFacts]]
    report: Callable[[str], None]
    interrupted: Callable[[], bool] = lambda: False
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
