"""What a command sees of the machine that it runs on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from provision.lab.commands.answer import Answer
from provision.lab.machine import Machine
from provision.lab.proxmox.node import Node
from provision.lab.rootfs import Rootfs


class Machinery(Protocol):
    """The simulated host, as far as commands need it."""

    @property
    def root(self) -> Rootfs: ...

    @property
    def node(self) -> Node: ...

    @property
    def machine(self) -> Machine: ...

    def request_reboot(self) -> None:
        """Go down a moment from now, when the command that asked has been answered."""
        ...

    def is_hidden(self, command: str) -> bool:
        """True for a command that this machine does not have."""
        ...


Command = Callable[[Machinery, tuple[str, ...], bytes], Answer]
