"""``python3`` on a simulated host: it runs the shipped dead-man from the host's disk, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
import sys
from pathlib import Path

from provision.apply.onboard_bundle import program
from provision.lab.children import Children
from provision.lab.commands.answer import Answer
from provision.lab.network_loss import NetworkLoss
from provision.lab.rootfs import Rootfs
from provision.lab.table_server import serve_table

START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from provision.lab.deadman_child import main; "
    "main(sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5:])"
)
PYTHON = ("python3", "/usr/bin/python3")


def is_python(argv: tuple[str, ...]) -> bool:
    """Whether a program is to be run by its path: ``python3 -I FILE``."""
    return argv[:1] in tuple((name,) for name in PYTHON) and argv[1:2] == ("-I",) and argv[2:3] > ("/",)


class Programs:
    """Programs of pvectl that run on one machine."""

    def __init__(self, root: Rootfs, children: Children, network: NetworkLoss) -> None:
        self.root = root
        self.children = children
        self.network = network

    async def run(self, argv: tuple[str, ...]) -> Answer:
        """Run ``python3 -I FILE ARGUMENTS``; any program but the shipped one is refused."""
        place = self.root.at(argv[2])
        if not place.is_file():
            return Answer(2, "", f"python3: can't open file '{argv[2]}': [Errno 2] No such file or directory\n")
        source = place.read_bytes()
        if hashlib.sha256(source).digest() != hashlib.sha256(program()).digest():
            return Answer(126, "", f"{argv[2]}: the lab runs no program but pvectl's own\n")
        return await self._child(source, argv[3:])

    async def _child(self, source: bytes, arguments: tuple[str, ...]) -> Answer:
        ours, theirs = socket.socketpair()
        package = str(Path(__file__).resolve().parents[2])
        network = "up" if self.network.is_up else "down"
        with theirs:
            head = (sys.executable, "-I", "-S", "-c", START, package, str(self.root.root), str(theirs.fileno()))
            process = await asyncio.create_subprocess_exec(
                *head,
                network,
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(theirs.fileno(),),
                cwd=self.root.root,
                env={"LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"},
                start_new_session=True,
            )
        self.children.alive.add(process)
        table = asyncio.create_task(serve_table(ours, self.children.dispatch))
        try:
            out, err = await process.communicate(source)
        finally:
            self.children.alive.discard(process)
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
            table.cancel()
            await asyncio.gather(table, return_exceptions=True)
        return Answer(process.returncode or 0, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))
