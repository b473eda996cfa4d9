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
import os
from pathlib import Path
from provision.cli.context import open_pve, resolve
from provision.remote.ssh import open_client
site = resolve(None, None)
client = open_client(site.target)
channel = client.get_transport().open_session(timeout=10)
channel.exec_command("true")
channel.recv_exit_status()
open_pve(site, None).version()
"""


def main() -> int:
    from provision.lab.supervisor import running

    bare = measure(lambda: call([sys.executable, "-c", "pass"]))
    help_time = measure(lambda: call([str(BIN / "pvectl"), "--help"]))
    print(f"python -c pass   {bare * 1000:6.0f} ms")
    print(f"pvectl --help    {help_time * 1000:6.0f} ms   {help_time / bare:.1f} times (aim: under 200 ms)")
    with running("epyc-8x-rtxpro6000") as lab:
        env = {**os.environ, **lab.env()}
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
