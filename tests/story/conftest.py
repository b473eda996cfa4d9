"""What the stories compare: a host's files before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

GENERATED = ("/boot/grub/grub.cfg", "/boot/initrd.img-")
"""Made anew by the host's own programs: equal in content, not in time."""
OBJECTS = "/etc/pve/"
"""Proxmox's own files, which it writes itself: equal in content; mode and time are those of its file system."""


def _comparable(path: str, what: tuple[object, ...]) -> tuple[object, ...]:
    if len(what) < 5:
        return what
    mode, uid, gid, _time, content = what
    if path.startswith(OBJECTS):
        return (content,)
    return (mode, uid, gid, content) if path.startswith(GENERATED) else what


@pytest.fixture
def set_up() -> Callable[[Any], dict[str, tuple[object, ...]]]:
    """The set-up of a lab's host as a rollback must leave it: /etc, /boot and Proxmox's objects."""

    def read(host: Any) -> dict[str, tuple[object, ...]]:
        return {path: _comparable(path, what) for path, what in host.files("/etc", "/boot").items()}

    return read


@pytest.fixture
def generate() -> Callable[[Any], None]:
    """Let the host's own programs make what they generate, so that there is something equal to come back to."""

    def run(host: Any) -> None:
        for argv in (("update-grub",), ("update-initramfs", "-u", "-k", "all")):
            assert host.lab.call(host.lab.host.dispatch(argv, b"")).rc == 0

    return run
