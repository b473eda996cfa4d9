"""The lines with which people show IOMMU groups: shell loops, ``find``, ``ls -R`` and the kernel's log.

IOMMU Group 7:                               a line of its own, devices below
IOMMU group 7 01:00.0 VGA ... [10de:2206]    in front of each device
Group 7:        [10de:2206] [R] 01:00.0  VGA compatible controller   GA102
/sys/kernel/iommu_groups/7/devices/0000:01:00.0
pci 0000:01:00.0: Adding to iommu group 7
"""

from __future__ import annotations

import re
from typing import NamedTuple

from provision.readers.heads import ADDRESS, full

_HEADER = re.compile(
    r"^[\s#*=|-]*(?:iommu[\s_-]*)?(?:group|gruppe|group[e]|grupo|gruppo|groep|grupa|skupina|группа)"
    r"[\s_-]*(?:iommu)?[\s_:#-]*(?P<number>\d{1,4})(?!\d)[\s:#*=|.)\]-]*(?P<rest>(?:\[|[0-9a-fA-F]{2,8}:).*)?$",
    re.IGNORECASE,
)
_FOLDER = re.compile(r"iommu_groups/(?P<number>\d+)(?:/devices)?/?:?\s*$")
_PATH = re.compile(rf"(?:iommu_groups|^\s*\.)/(?P<number>\d+)/devices/(?P<address>{ADDRESS})")
_LOG = re.compile(
    rf"(?P<address>{ADDRESS}): Add(?:ing|ed) to (?:iommu )?group (?P<number>\d+)"
    rf"|Add(?:ing|ed) device (?P<old>{ADDRESS}) to group (?P<old_number>\d+)"
)
_NOT_PCI = re.compile(r"^\s*USB:\s")


class GroupHeader(NamedTuple):
    number: int
    rest: str
    """What follows on the same line: a device, or nothing."""


class Member(NamedTuple):
    bdf: str
    group: int
    kind: str


def read_header(text: str) -> GroupHeader | None:
    """Return the number of a group and what follows it, or None."""
    match = _HEADER.match(text)
    if match is not None:
        return GroupHeader(int(match["number"]), (match["rest"] or "").strip())
    folder = _FOLDER.search(text)
    return GroupHeader(int(folder["number"]), "") if folder else None


def read_member(text: str) -> Member | None:
    """Return the function and its group of a line that needs no other line, or None."""
    path = _PATH.search(text)
    if path is not None:
        return Member(full(path["address"]), int(path["number"]), "IOMMU groups (sysfs paths)")
    log = _LOG.search(text)
    if log is None:
        return None
    return Member(full(log["address"] or log["old"]), int(log["number"] or log["old_number"]), "kernel log")


def is_not_pci(text: str) -> bool:
    """True for the USB lines that some listings put between the functions."""
    return _NOT_PCI.match(text) is not None
