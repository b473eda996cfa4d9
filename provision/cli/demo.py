"""``make demo``: the whole story on the simulated field report's host, with short explanations."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provision.lab.supervisor import RunningLab

MACHINE = "epyc-8x-rtxpro6000"
_BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Step:
    title: str
    why: str
    argv: tuple[str, ...]
    expected: tuple[int, ...] = (0,)
    on_host: bool = False
    """Typed in the host's own shell."""


STEPS: tuple[Step, ...] = (
    Step(
        "The VM does not start",
        "VM 100 shall serve a model on eight GPUs. A firmware update moved the IOMMU groups. Proxmox says:",
        ("qm", "start", "100"),
        (1, 255),
        on_host=True,
    ),
    Step("Why?", "The doctor reads the host in one round trip and changes nothing.", ("pvectl", "doctor"), (3,)),
    Step(
        "What would be done about it?",
        "The plan shows every change with its reason and its undo, and makes none. Exit code 2: changes are pending.",
        ("pvectl", "plan", "--detailed-exitcode", "-o", "plan.json"),
        (2,),
    ),
    Step(
        "Do it, reboot, go on",
        "Each step: intent, act, read back, receipt on the host. The controller waits for the new boot and finishes.",
        ("pvectl", "apply", "plan.json", "--yes", "--reboot"),
    ),
    Step("Prove it", "On the host, and in the guest by one probe file.", ("pvectl", "verify")),
    Step(
        "Is anything left to do?",
        "A second plan on the same wish must be empty.",
        ("pvectl", "plan", "--detailed-exitcode"),
    ),
    Step(
        "And back",
        "Rollback restores every file byte for byte and every Proxmox object, newest step first.",
        ("pvectl", "rollback", "--yes", "--stop-guests", "--reboot"),
    ),
)

END = """\
That was a simulated host. On a real one (the first two change nothing):

  pvectl doctor root@pve1
  pvectl topo root@pve1
  pvectl init root@pve1 -o pvectl.yaml
  pvectl plan
  pvectl apply --reboot
  pvectl verify

To stay on the simulated host:  pvectl lab run {machine} -- sh
"""


def main() -> int:
    """Run every step on a fresh lab host; 1 where a step does not end as it should."""
    from provision.lab.supervisor import running

    started = time.monotonic()
    with running(MACHINE) as lab, tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, step in enumerate(STEPS, start=1):
            if not _show(number, step, lab):
                return 1
    _rule("The end")
    sys.stdout.write(END.format(machine=MACHINE))
    sys.stdout.write(f"\n({time.monotonic() - started:.0f} s)\n")
    return 0


def _show(number: int, step: Step, lab: RunningLab) -> bool:
    _rule(f"{number}. {step.title}")
    sys.stdout.write(textwrap.fill(step.why, 96) + "\n\n")
    sys.stdout.write(("root@pve1# " if step.on_host else "$ ") + " ".join(step.argv) + "\n")
    sys.stdout.flush()
    code = _run_on_host(step.argv, lab) if step.on_host else _run(step.argv, {**os.environ, **lab.env()})
    if code in step.expected:
        return True
    sys.stdout.write(f"\nThe demo stops: this ended with {code}, expected {step.expected[0]}.\n")
    return False


def _run(argv: Sequence[str], env: dict[str, str]) -> int:
    # Both streams in one, so that progress and answer come in the order they are written.
    program = [str(_BIN / argv[0]), *argv[1:]]
    return subprocess.run(program, env=env, stderr=sys.stdout, check=False).returncode


def _run_on_host(argv: Sequence[str], lab: RunningLab) -> int:
    from provision.cli.context import open_session, resolve

    with open_session(resolve(None, lab.inventory)) as session:
        done = session.run(argv)
    sys.stdout.write((done.stdout + done.stderr).decode())
    return done.rc


def _rule(title: str) -> None:
    sys.stdout.write(f"\n── {title} " + "─" * max(0, 94 - len(title)) + "\n\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
