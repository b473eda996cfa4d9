"""Runs the shipped dead-man on a simulated host's root, in a process of its own.

Its commands go over a socket to the machine's command table, and its network is what the lab says.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class LabNetwork:
    """Everything answers, or nothing does."""

    def __init__(self, *, is_up: bool) -> None:
        self.is_up = is_up

    def listens(self, address: str) -> bool:
        return self.is_up and bool(address)

    def answers(self, gateway: str) -> bool:
        return self.is_up and bool(gateway)


def main(root: str, channel: int, network: str, arguments: Sequence[str]) -> None:
    """Run the program that comes on standard input; the starter has compared it with the shipped one."""
    from provision.lab import agent_child, isolation  # noqa: PLC0415 - the path is set by the starter

    source = sys.stdin.buffer.read()
    code = compile(source, "<pvectl dead-man>", "exec")
    names: dict[str, Any] = {"__name__": "pvectl_deadman"}
    exec(code, names)  # noqa: S102 - see above
    runner = agent_child.TableRunner(socket.socket(fileno=channel))
    agent_child.become_root()
    isolation.enclose(Path(root))
    sys.exit(names["main"](arguments, root, runner, LabNetwork(is_up=network == "up")))
