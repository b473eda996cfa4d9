"""A generated grub.cfg as GRUB's own scripts write it: next_entry, custom.cfg, the entry of a kernel."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from provision.boot.grub_cfg import kernel_entry, reads_custom, takes_next_entry
from provision.evidence import Unknown

SCRIPTS = Path("/etc/grub.d")
ENTRIES = """\
menuentry 'Some Linux' --class gnu-linux $menuentry_id_option 'simple-1' {
\tload_video
\tif [ x$grub_platform = xxen ]; then insmod xzio; fi
\tsearch --no-floppy --fs-uuid --set=root 1111-2222
\techo\t'Loading ...'
\tlinux\t/vmlinuz-6.14.1-1-pve root=UUID=1111-2222 ro  quiet  iommu=pt
\tinitrd\t/initrd.img-6.14.1-1-pve
}
submenu 'Advanced' $menuentry_id_option 'advanced-1' {
\tmenuentry 'old' {
\t\tlinux\t/vmlinuz-6.14.1-1-pve-debug root=UUID=1111-2222 ro single
\t}
}
"""


def test_the_body_of_a_kernels_entry_with_another_command_line() -> None:
    entry = kernel_entry(ENTRIES, "6.14.1-1-pve")
    assert not isinstance(entry, Unknown)
    assert entry.options == "root=UUID=1111-2222 ro  quiet  iommu=pt"
    lines = entry.with_options("root=UUID=1111-2222 ro quiet")
    assert lines[4] == "\tlinux /vmlinuz-6.14.1-1-pve root=UUID=1111-2222 ro quiet"
    assert lines[:4] == entry.body[:4]
    assert lines[5:] == entry.body[5:]


def test_an_entry_without_parameters() -> None:
    entry = kernel_entry("menuentry 'x' {\nlinux /vmlinuz-1\n}\n", "1")
    assert not isinstance(entry, Unknown)
    assert entry.options == ""
    assert entry.with_options("quiet") == ("linux /vmlinuz-1 quiet",)


@pytest.mark.parametrize("text", ["", "menuentry 'x' {\n", "linux /vmlinuz-1 quiet\n", "}\n}\n"])
def test_no_such_entry(text: str) -> None:
    assert isinstance(kernel_entry(text, "1"), Unknown)
    assert not takes_next_entry(text)
    assert not reads_custom(text)


@pytest.mark.skipif(not (SCRIPTS / "00_header").is_file() or shutil.which("sh") is None, reason="no GRUB here")
@pytest.mark.parametrize("default", ["0", "saved"])
def test_what_grubs_own_scripts_write(default: str) -> None:
    """next_entry wins whatever GRUB_DEFAULT says: it needs no GRUB_DEFAULT=saved."""
    environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "pkgdatadir": "/usr/share/grub", "GRUB_DEFAULT": default}
    environ |= {"GRUB_TERMINAL": "console", "GRUB_TERMINAL_OUTPUT": "console", "GRUB_TIMEOUT": "5"}
    text = "".join(
        subprocess.run(
            ("sh", str(SCRIPTS / name)), env=environ, capture_output=True, text=True, check=False, timeout=60
        ).stdout
        for name in ("00_header", "41_custom")
    )
    assert takes_next_entry(text)
    assert reads_custom(text)
