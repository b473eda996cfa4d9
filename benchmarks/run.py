"""Figures as ratios within one run: plan against its floor, help against a bare interpreter.

The floor of a plan is what any client must do: one SSH ``true`` and one API GET, with the same
libraries in one process.  Printed as text; nothing here is asserted by a test.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

BIN = Path(sys.executable).parent
ROUNDS = 7
FLOOR = """
import os, socket
from pathlib import Path
from urllib.parse import urlsplit
import fabric, paramiko
from proxmoxer import ProxmoxAPI
from provision.inventory.loader import load
path = Path(os.environ["PVECTL_INVENTORY"])
host = next(iter(load(path).hosts.values()))
user, _, where = host.address.partition("@")
name, _, port = where.partition(":")
sock = socket.create_connection((name, int(port)), timeout=10)
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
given = {"sock": sock, "key_filename": host.ssh.identity_file}
way = fabric.Connection(name, user=user, port=int(port), connect_kwargs=given)
way.client.load_host_keys(host.ssh.known_hosts)
way.client.set_missing_host_key_policy(paramiko.RejectPolicy())
way.open()
channel = way.transport.open_session(timeout=10)
channel.exec_command("true")
assert channel.recv_exit_status() == 0
url = urlsplit(host.api.url)
secret = Path(host.api.secret.file).read_text().strip()
api = ProxmoxAPI(
    url.hostname, port=url.port, user=host.api.user, token_name=host.api.token_name, token_value=secret,
    verify_ssl=next(str(p) for p in (path.parent / "api").glob("*.pem") if "key" not in p.name),
)
assert api.version.get()
"""


def main() -> int:
    from provision.lab.supervisor import running

    bare = measure(lambda: call([sys.executable, "-c", "pass"]))
    help_time = measure(lambda: call([str(BIN / "pvectl"), "--help"]))
    print(f"python -c pass   {bare * 1000:6.0f} ms")
    print(f"pvectl --help    {help_time * 1000:6.0f} ms   {help_time / bare:.1f} times (aim: under 200 ms)")
    with running("epyc-8x-rtxpro6000") as lab:
        env = {**os.environ, **lab.env()}
        call([str(BIN / "pvectl"), "plan"], env)
        floor = measure(lambda: call([sys.executable, "-c", FLOOR], env))
        plan = measure(lambda: call([str(BIN / "pvectl"), "plan"], env))
    print(f"floor            {floor * 1000:6.0f} ms   (SSH true + one API GET, same libraries, one process)")
    print(f"pvectl plan      {plan * 1000:6.0f} ms   {plan / floor:.2f} times the floor")
    print(f"aim: at most 1.5 times the floor + 300 ms = {(1.5 * floor + 0.3) * 1000:.0f} ms")
    return 0


def call(argv: Sequence[str], env: dict[str, str] | None = None) -> None:
    subprocess.run(argv, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def measure(work: Callable[[], None]) -> float:
    """Median of several rounds after one that warms caches, in seconds."""
    work()
    times = []
    for _ in range(ROUNDS):
        start = time.monotonic()
        work()
        times.append(time.monotonic() - start)
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(main())
