"""A small SSH server for tests, a process of its own: ``python ssh_server.py FOLDER``.

FOLDER holds ``host_key_*``, ``authorized_keys``, ``bin/`` (first in the PATH of what it runs) and ``prefix``, shell
text that runs before every command.  The port goes to stdout, what happened to ``events``, a word and JSON a line.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import asyncssh

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()


def note(kind: str, value: Any) -> None:
    with (FOLDER / "events").open("a") as events:
        events.write(f"{kind} {json.dumps(value)}\n")


class Door(asyncssh.SSHServer):
    def begin_auth(self, username: str) -> bool:
        note("login", username)
        return True

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        note("forward", [dest_host, dest_port])
        return True


async def execute(process: asyncssh.SSHServerProcess[bytes]) -> None:
    command = process.command or ""
    note("command", command)
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(
        "sh",
        "-c",
        (FOLDER / "prefix").read_text() + command,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env={"PATH": f"{FOLDER}/bin:/usr/bin:/bin"},
    )
    feeder = asyncio.ensure_future(copy(process.stdin, child.stdin, close=True))
    await asyncio.gather(copy(child.stdout, process.stdout), copy(child.stderr, process.stderr))
    status = await child.wait()
    feeder.cancel()
    if status < 0:
        process.exit_with_signal("KILL")
    else:
        process.exit(status)


async def copy(reader: Any, writer: Any, *, close: bool = False) -> None:
    with contextlib.suppress(OSError, asyncssh.Error):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    if close:
        writer.close()


async def main() -> None:
    listener = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_factory=Door,
        server_host_keys=sorted(map(str, FOLDER.glob("host_key_*"))),
        authorized_client_keys=str(FOLDER / "authorized_keys"),
        process_factory=execute,
        encoding=None,
        allow_scp=False,
    )
    print(listener.get_port(), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # the test's end is ours


if __name__ == "__main__":
    asyncio.run(main())
