"""What the stories compare: a host's files before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

REMADE = ("/boot/grub/grub.cfg", "/boot/grub/grubenv", "/boot/initrd.img-", "/etc/pve/")
"""Made anew by the host's own programs, and Proxmox's own files: equal in all but time."""


def _comparable(path: str, what: tuple[object, ...]) -> tuple[object, ...]:
    if len(what) < 5 or not path.startswith(REMADE):
        return what
    mode, uid, gid, _time, content = what
    return mode, uid, gid, content


@pytest.fixture
def set_up() -> Callable[[Any], dict[str, tuple[object, ...]]]:
    """The set-up of a lab's host as a rollback must leave it: /etc, /boot and Proxmox's objects."""

    def read(host: Any) -> dict[str, tuple[object, ...]]:
        return {path: _comparable(path, what) for path, what in host.files("/etc", "/boot").items()}

    return read
