"""The whole story on the lab, while real commands are traps and the real /etc and /boot are watched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from provision.lab.supervisor import command_environment, running

TRAPS = (
    "update-grub",
    "systemctl",
    "qm",
    "pvesh",
    "modprobe",
    "update-initramfs",
    "proxmox-boot-tool",
    "reboot",
    "udevadm",
)
WATCHED = ("/etc", "/boot", "/var/lib/pvectl")
OVER_SSH = {
    ("doctor", "--fail-on", "never"): 0,
    ("plan",): 0,
    ("apply", "--yes", "--reboot"): 0,
    ("verify",): 0,
    ("rollback", "--yes", "--stop-guests"): 6,
}
ON_THE_HOST = {
    ("plan",): 0,
    ("apply", "--yes", "--reboot"): -9,
    ("apply", "--resume", "--yes"): 0,
    ("verify",): 0,
    ("rollback", "--yes", "--stop-guests"): 6,
}
"""Each command and its exit status: on the host the reboot kills the one that asked for it."""


def _watch() -> dict[str, tuple[int, int, int]]:
    """Return size, inode and modification time of every file that the story must not touch."""
    found: dict[str, tuple[int, int, int]] = {}
    for top in WATCHED:
        for folder, _folders, names in os.walk(top):
            for name in names:
                path = Path(folder) / name
                status = path.lstat()
                found[str(path)] = (status.st_size, status.st_ino, status.st_mtime_ns)
    return found


@pytest.mark.story
@pytest.mark.parametrize(
    "on_host", [False, pytest.param(True, marks=pytest.mark.laws)], ids=["over ssh", "on the host"]
)
def test_the_story_never_touches_this_machine(tmp_path: Path, *, on_host: bool) -> None:
    traps, caught = tmp_path / "traps", tmp_path / "caught"
    traps.mkdir()
    for name in TRAPS:
        (traps / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {caught}\nexit 99\n')
        (traps / name).chmod(0o755)
    before = _watch()
    with running("epyc-8x-rtxpro6000", boot_delay=0.2) as lab:
        environment = command_environment(lab.folder, lab.lab.env(on_host=on_host))
        environment["PATH"] = f"{traps}{os.pathsep}{environment['PATH']}"
        for words, expected in (ON_THE_HOST if on_host else OVER_SSH).items():
            argv = [sys.executable, "-m", "provision.cli", *words]
            done = subprocess.run(
                argv,
                env=environment,
                cwd=Path(__file__).parents[3],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == expected, f"{words}\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
        commands_run = {argv[0] for argv in lab.host.history}
    assert not caught.exists(), caught.read_text()
    assert _watch() == before
    assert {"update-grub", "update-initramfs"} <= commands_run, "the lab's own commands were run in their place"


def test_a_trap_would_have_been_seen(tmp_path: Path) -> None:
    """Positive control: the way in which the story runs does find a trap on PATH."""
    trap = tmp_path / "update-grub"
    trap.write_text(f"#!/bin/sh\necho trapped > {tmp_path}/caught\n")
    trap.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(["update-grub"], env=environment, check=True)
    assert (tmp_path / "caught").read_text() == "trapped\n"
