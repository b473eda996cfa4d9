"""What apply is told and what it answers; and the seams where tests put a fake."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from provision.apply.basis import recheck_guard
from provision.evidence import Frozen
from provision.host.model import HostModel
from provision.inventory.models import Policies
from provision.plan.model import Plan
from provision.remote.session import Session

Ask = Callable[[str], bool]
"""A question to the user; true where the answer is yes."""

Report = Callable[[str], None]
"""Takes one line of progress."""


class ApplyOptions(Frozen):
    """What the user allowed.  Times in seconds."""

    host: str = ""
    """As the user typed it, for the next command."""
    confirm: Literal["apply", "local"] = "apply"
    """Who may confirm a new boot set-up: apply alone, or also the host where its own network answers."""
    resume_argv: tuple[str, ...] = ()
    """Where this machine is the host: the command that goes on with a run after the boot, without the run."""
    reboot: bool = False
    stop_guests: bool = False
    """By --stop-guests, or by ``policies.guests: stop``."""
    policies: Policies = Policies()
    reboot_deadline: float = 2400.0
    """A server with much memory and eight GPUs trains for many minutes before it boots."""
    poll: float = 5.0
    stop_timeout: float = 900.0


Status = Literal["done", "nothing", "not-begun", "reboot-needed", "confirmed"]


class RunOutcome(Frozen):
    """How a run ended, where it did not end with an error."""

    kind: Literal["apply", "rollback"]
    status: Status
    run: str | None
    """``None`` where nothing was written."""
    steps: tuple[str, ...] = ()
    """Titles of the steps that are done, in order."""
    notes: tuple[str, ...] = ()
    next_command: str = ""

    @property
    def exit_code(self) -> int:
        return 6 if self.status == "reboot-needed" else 0


def read_host_now(session: Session) -> HostModel:
    """Read the whole host and return its model."""
    from provision.capture.collect import collect_host  # noqa: PLC0415  (heavy, and a seam)
    from provision.host.assemble import assemble  # noqa: PLC0415

    return assemble(collect_host(session))


@dataclass(frozen=True)
class Seams:
    """Everything else that apply asks of the world."""

    read_host: Callable[[Session], HostModel] = read_host_now
    recheck: Callable[[Plan, HostModel, Policies], None] = recheck_guard
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    token: Callable[[], str] = lambda: secrets.token_hex(3)
    interrupted: Callable[[], bool] = lambda: False
    """Whether Ctrl-C was pressed: asked between steps."""


WORLD = Seams()
"""The real host, clock and chance."""
