"""Boot files of other people: every codec gives back what it read, and GRUB's defaults agree with a shell."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from provision.boot.cmdline import Cmdline
from provision.boot.grub import DEFAULT_FILE, GrubDefaults
from provision.boot.modprobe import ModprobeFile
from provision.boot.systemd_boot import KernelCmdlineFile
from provision.boot.udev import UdevFile
from provision.evidence import Unknown

pytestmark = pytest.mark.corpus


def texts() -> list[Path]:
    root = os.environ.get("PVECTL_CORPUS")
    if not root:
        pytest.skip("PVECTL_CORPUS names no folder")
    return sorted(p for p in Path(root, "bootcfg").rglob("*") if p.is_file())


def test_every_codec_gives_back_what_it_read() -> None:
    for path in texts():
        text = path.read_text(errors="replace")
        for codec in (Cmdline, ModprobeFile, UdevFile, KernelCmdlineFile):
            assert codec.parse(text).render() == text, path  # type: ignore[attr-defined]


@pytest.mark.skipif(not Path("/bin/sh").exists(), reason="no shell to compare with")
def test_the_values_are_those_that_a_shell_sees() -> None:
    known = 0
    for path in texts():
        text = path.read_text(errors="replace")
        line = (
            GrubDefaults({DEFAULT_FILE: text}).cmdline() if "GRUB_CMDLINE" in text else Unknown(unknown="no grub file")
        )
        if isinstance(line, Unknown):
            continue
        script = '. "$1"; printf %s "$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT"'
        done = subprocess.run(
            ["/bin/sh", "-c", script, "sh", str(path)],
            capture_output=True,
            text=True,
            check=False,
            timeout=10,
            env={"PATH": "/nonexistent"},
        )
        if done.returncode == 0 and "GRUB_CMDLINE_LINUX" not in done.stderr and "not found" not in done.stderr:
            known += 1
            assert done.stdout.split() == line.render().split(), path
    assert known
