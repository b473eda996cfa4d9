"""Names that go into paths and files: checked before use, since clients join them as path text."""

from __future__ import annotations

import re
from typing import Final

from provision.errors import UsageError

CONFIG_ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]+")
"""``pve-configid``: two characters or more, first a letter (pve-common src/PVE/JSONSchema.pm)."""
NODE_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?")
UPID: Final = re.compile(
    r"UPID:([A-Za-z0-9-]+):[0-9A-Fa-f]{8}:[0-9A-Fa-f]{8,9}:[0-9A-Fa-f]{8}:[^:\s/]+:[^:\s/]*:[^:\s/]+:"
)


def mapping_id(text: str) -> str:
    """Return ``text`` if it can name a mapping.  Raises :class:`UsageError`."""
    if CONFIG_ID.fullmatch(text) is None:
        raise UsageError(
            f"Unable to use {text!r} as the name of a mapping: Proxmox takes letters, digits, - and _, "
            "at least two characters, a letter first",
            "choose a name such as gpu-0",
        )
    return text


def node_name(text: str) -> str:
    """Return ``text`` if it can name a node.  Raises :class:`UsageError`."""
    if NODE_NAME.fullmatch(text) is None:
        raise UsageError(f"Unable to use {text!r} as the name of a node", "give the name that `pvecm nodes` shows")
    return text


def vm_id(number: int) -> int:
    """Return ``number`` if it can be a VM's id.  Raises :class:`UsageError`."""
    if not 100 <= number <= 999_999_999:
        raise UsageError(f"Unable to use {number} as a VM id", "Proxmox takes 100 to 999999999")
    return number


def upid_node(upid: str) -> str:
    """Return the node that runs the task ``upid``.  Raises ``ValueError`` where it is no UPID."""
    match = UPID.fullmatch(upid)
    if match is None:
        raise ValueError(f"{upid!r} is not the id of a task")
    return match[1]
