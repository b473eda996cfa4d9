"""The process in which the shipped agent or probe runs on a lab machine.

Started by :mod:`provision.lab.children` as ``python -I -S -c ...``: standard library only.  Commands that the
agent asks for go over a socket to the lab's command table; no program of the machine is ever started.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO


class TableRunner:
    """Sends an argv to the lab's command table and waits for the answer."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel.makefile("rwb")

    def __call__(
        self, argv: tuple[str, ...], stdin: bytes, timeout: float, env: Mapping[str, str]
    ) -> tuple[int, bytes, bytes, bool]:
        """Return ``(rc, out, err, timed_out)``."""
        request = {
            "argv": list(argv),
            "stdin": base64.b64encode(stdin).decode("ascii"),
            "timeout": timeout,
            "env": dict(env),
        }
        payload = json.dumps(request).encode()
        self.channel.write(struct.pack(">I", len(payload)) + payload)
        self.channel.flush()
        head = self.channel.read(4)
        if len(head) < 4:
            return 255, b"", b"the lab is going down\n", False
        answer = json.loads(self.channel.read(struct.unpack(">I", head)[0]))
        out, err = base64.b64decode(answer["out"]), base64.b64decode(answer["err"])
        return int(answer["rc"]), out, err, bool(answer["timed_out"])


def main(root: str, channel: int, marker: str) -> None:
    """Serve one exec of the agent on ``root`` until its input ends."""
    from provision.lab import isolation  # noqa: PLC0415 - the path is set by the starter
    from provision.remote import bootstrap  # noqa: PLC0415

    runner = TableRunner(socket.socket(fileno=channel))
    stdin: BinaryIO = sys.stdin.buffer
    stdout: BinaryIO = sys.stdout.buffer
    become_root()
    isolation.enclose(Path(root))
    try:
        bootstrap.serve(stdin, stdout, marker, root=root, runner=runner, environ=ENVIRON)
    except ValueError as error:
        sys.exit(f"{bootstrap.COMPLAINT} {error}")


ENVIRON = {"HOME": "/root", "USER": "root", "LOGNAME": "root", "SHELL": "/bin/bash", "PATH": "/usr/sbin:/usr/bin"}


def become_root() -> None:
    """Let files keep their owner where the lab's user may not change it: on the lab everything is root's."""
    if os.geteuid() == 0:
        return
    os.chown = os.lchown = os.fchown = _keep_owner


def _keep_owner(*_arguments: object, **_options: object) -> None:
    return None
