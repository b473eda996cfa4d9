"""What ``check-node`` says about a mapping, computed from the hardware: same words, same order.

Proxmox runs the same comparison at every VM start (``assert_valid``, pve-guest-common
src/PVE/Mapping/PCI.pm), so an entry that fails here stops every VM that uses the mapping.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from provision.evidence import Frozen, Maybe, Unknown
from provision.pci.model import PciFunction
from provision.pve.model import MappingEntry, PciMapping
from provision.pve.property_string import parse
from provision.pve.session import CheckMessage

NEW_WORDING_SINCE: Final = (8, 2, 5)
"""pve-guest-common 5.1.4 of July 2024; the package has its own number, so this pve-manager version is an estimate."""
MDEV_CHECKED_SINCE: Final = (8, 4)
"""pve-guest-common 5.1.7."""

_NO_ID = "ffff:ffff"
"""What stands for an id that was not read: no device can have it."""
_NOT_NAMED = Unknown(
    unknown="the texts do not show vendor and device", supply="add the output of lspci -Dnnvvv, run as root"
)

_FUNCTION = re.compile(r"\.[0-9a-f]$")


class _Rules(Frozen):
    """What one version of Proxmox compares and how it words it."""

    is_new_wording: bool
    checks_mdev: bool

    def missing(self, key: str, path: str) -> str:
        if self.is_new_wording:
            return f"missing expected property '{key}' for device '{path}'"
        return f"no '{key}' for device '{path}'"

    def unexpected(self, key: str, path: str) -> str | None:
        if self.is_new_wording:
            return f"unexpected property '{key}' configured for device '{path}'"
        return f"'{key}' configured but should not be" if key != "subsystem-id" else None


def check(
    mapping: PciMapping, node: str, functions: Sequence[PciFunction], version: str | None = None
) -> tuple[CheckMessage, ...]:
    """Return what ``GET /cluster/mapping/pci?check-node=<node>`` shows for ``mapping``.

    ``version`` is pve-manager's (``9.2.11``); the newest wording without one.  A fact that is not known
    is not compared: :func:`missing_facts` names those, and a clean answer is only a pass where it is empty.
    """
    own = [entry for entry in mapping.entries if entry.node == node]
    if not own:
        return (CheckMessage(severity="warning", message=f"No mapping for node {node}."),)
    index = {function.bdf: function for function in functions}
    texts = (check_entry(mapping, entry, index, version) for entry in own)
    return tuple(
        CheckMessage(severity="error", message=f"Invalid configuration: {text}\n") for text in texts if text is not None
    )


def check_entry(
    mapping: PciMapping, entry: MappingEntry, functions: Mapping[str, PciFunction], version: str | None = None
) -> str | None:
    """Return the first complaint of ``assert_valid`` about one entry, ``None`` where there is none.

    ``functions`` is by BDF (``0000:41:00.0``).  The text has no prefix and no line feed.
    """
    rules = _rules(version)
    configured: dict[str, str] = {**parse(entry.raw), "mdev": "1" if mapping.mdev else "0"}
    for number, path in enumerate(paths(entry)):
        function = functions.get(path)
        if function is None:
            return f"pci device '{path}' not found"
        complaint = next(_compare(mapping.id, path, function, configured, rules, is_first=number == 0), None)
        if complaint is not None:
            return complaint
    return None


def paths(entry: MappingEntry) -> tuple[str, ...]:
    """Return the functions that Proxmox compares for one entry: function 0 where none is named."""
    return tuple(path if _FUNCTION.search(path) else f"{path}.0" for path in entry.path.split(";"))


def missing_facts(mapping: PciMapping, node: str, functions: Sequence[PciFunction]) -> tuple[str, ...]:
    """Return what :func:`check` could not compare, as ``<bdf>: <property>: <why>``."""
    index = {function.bdf: function for function in functions}
    return tuple(
        f"{path}: {key}: {value.unknown}"
        for entry in mapping.entries
        if entry.node == node
        for path in paths(entry)
        if path in index
        for key, value in expected(index[path]).items()
        if isinstance(value, Unknown)
    )


def expected(function: PciFunction) -> dict[str, Maybe[str | None]]:
    """Return what the hardware says for each property, in Proxmox' order; ``None``: the device has none."""
    group = function.iommu_group
    return {
        "id": function.ids if function.ids != _NO_ID else _NOT_NAMED,
        "iommugroup": str(group) if isinstance(group, int) else group,
        "mdev": _mdev(function),
        "subsystem-id": function.subsystem_ids,
    }


def _mdev(function: PciFunction) -> Maybe[str | None]:
    if isinstance(function.mediated, Unknown):
        # Both folders are made by a host driver; without one there are none.
        has_no_such_driver = function.driver is None or function.driver == "vfio-pci"
        return "0" if has_no_such_driver else function.mediated
    return "1" if function.mediated else "0"


def _compare(
    name: str, path: str, function: PciFunction, configured: Mapping[str, str], rules: _Rules, *, is_first: bool
) -> Iterator[str]:
    for key, hardware in expected(function).items():
        if isinstance(hardware, Unknown) or (key == "iommugroup" and not is_first):
            continue
        if key == "mdev" and not rules.checks_mdev:
            continue
        complaint = _complaint(name, path, key, hardware, configured.get(key), rules)
        if complaint is not None:
            yield complaint


def _complaint(
    name: str, path: str, key: str, hardware: str | None, configured: str | None, rules: _Rules
) -> str | None:
    if hardware is not None and configured is None:
        return rules.missing(key, path)
    if hardware is None and configured is not None:
        return rules.unexpected(key, path)
    # Compared as text: upper case, a plus sign or a leading zero never match.
    return None if hardware == configured else f"'{key}' does not match for '{name}' ({hardware} != {configured})"


def _rules(version: str | None) -> _Rules:
    number = version_tuple(version)
    return _Rules(
        is_new_wording=number is None or number >= NEW_WORDING_SINCE,
        checks_mdev=number is None or number >= MDEV_CHECKED_SINCE,
    )


def version_tuple(version: str | None) -> tuple[int, ...] | None:
    """Return ``9.2.11`` as ``(9, 2, 11)``; ``None`` where there is no number in it."""
    numbers = re.match(r"\d+(?:\.\d+)*", version or "")
    return tuple(int(part) for part in numbers[0].split(".")) if numbers else None
