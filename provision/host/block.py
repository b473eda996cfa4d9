"""Block devices: which disk a name stands for, and which PCI function carries the disk."""

from __future__ import annotations

import re
from collections.abc import Iterator

from provision.evidence import Maybe, Unknown
from provision.host.facts import Facts

_BDF = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_PARTITION = re.compile(r"(?P<disk>.*\d)p\d+|(?P<plain>[a-z]+)\d+")
_NVME_HEAD = re.compile(r"nvme(\d+)n(\d+)")
_PSEUDO = ("loop", "ram", "zram", "fd")


class BlockTree:
    """What /sys/block and /dev say about disks, partitions and what is stacked on them."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.problem: Unknown | None = None
        """Why a name could not be followed down to its disks, if one could not."""
        blocks = facts.all("/sys/block/*", "link")
        if isinstance(blocks, Unknown):
            self.problem = blocks
            blocks = ()
        self._targets = {path.rsplit("/", 1)[1]: facts.link(path) for path in blocks}

    def disks(self) -> tuple[str, ...]:
        """Names of whole disks: what is neither pseudo, stacked (dm, md) nor a ZFS volume."""
        stacked = ("dm-", "md", "zd", *_PSEUDO)
        return tuple(name for name in self._targets if not name.startswith(stacked))

    def arrays(self) -> list[tuple[str, str]]:
        """Return each md array and multipath device with what it is: its members are in use, mounted or not."""
        found = [(name, f"md array {name}") for name in self._targets if name.startswith("md")]
        for name in self._targets:
            uuid = self._facts.word(f"/sys/block/{name}/dm/uuid") if name.startswith("dm-") else None
            if isinstance(uuid, str) and uuid.startswith("mpath-"):
                label = self._facts.word(f"/sys/block/{name}/dm/name")
                found.append((name, f"multipath {label if isinstance(label, str) else name}"))
        return found

    def bdf(self, disk: str) -> Maybe[str | None]:
        """Return the PCI function in the disk's device path: the nearest one above it."""
        target = self._targets.get(disk)
        if not isinstance(target, str):
            return target if isinstance(target, Unknown) else Unknown(unknown=f"/sys/block/{disk} was not captured")
        found = [part for part in target.split("/") if _BDF.fullmatch(part)]
        if found:
            return found[-1]
        if _NVME_HEAD.fullmatch(disk) and not self._nvme_paths(disk):
            return Unknown(unknown=f"{disk} is an NVMe disk with several paths, and none of them is in /sys/block")
        return None

    def _nvme_paths(self, disk: str) -> tuple[str, ...]:
        """With native multipath ``nvme0n1`` is virtual; ``nvme0c1n1`` are its paths."""
        head = _NVME_HEAD.fullmatch(disk)
        if head is None:
            return ()
        path = re.compile(rf"nvme{head[1]}c\d+n{head[2]}")
        return tuple(name for name in self._targets if path.fullmatch(name))

    def below(self, device: str) -> tuple[str, ...]:
        """Return the whole disks under a device path or block name; notes in ``problem`` what it cannot follow."""
        return tuple(dict.fromkeys(self._walk(self._name(device), ())))

    def _name(self, device: str) -> str:
        """``/dev/mapper/pve-root`` and ``/dev/disk/by-uuid/...`` lead to kernel names."""
        if not device.startswith("/dev/"):
            return device
        target = self._facts.link(device)
        if isinstance(target, str):
            return target.rstrip("/").rsplit("/", 1)[-1]
        if isinstance(target, Unknown) and device.startswith(("/dev/mapper/", "/dev/disk/")):
            mapped = self._dm_named(device.rsplit("/", 1)[1])
            if mapped is None:
                self.problem = target
            return mapped or ""
        if device.count("/") == 3:
            # A logical volume as /dev/VG/LV: device mapper joins both with "-" and doubles their own dashes.
            group, volume = device.split("/")[2:]
            return self._dm_named(f"{group.replace('-', '--')}-{volume.replace('-', '--')}") or device[5:]
        return device.rsplit("/", 1)[1]

    def _dm_named(self, name: str) -> str | None:
        for block in self._targets:
            if block.startswith("dm-") and self._facts.word(f"/sys/block/{block}/dm/name") == name:
                return block
        return None

    def _walk(self, name: str, seen: tuple[str, ...]) -> Iterator[str]:
        if not name or name in seen or name.startswith(_PSEUDO):
            return
        if name in self._targets:
            yield from self._whole(name, (*seen, name))
            return
        match = _PARTITION.fullmatch(name)
        disk = (match["disk"] or match["plain"]) if match else ""
        if disk in self._targets:
            yield from self._walk(disk, (*seen, name))
        else:
            self.problem = Unknown(unknown=f"it is not known which disk {name} is on", supply="take a new capture")

    def _whole(self, name: str, seen: tuple[str, ...]) -> Iterator[str]:
        slaves = self._facts.names(f"/sys/block/{name}/slaves")
        if name.startswith(("dm-", "md")):
            if isinstance(slaves, Unknown):
                self.problem = slaves
            for slave in () if isinstance(slaves, Unknown) else slaves or ():
                yield from self._walk(slave, seen)
            return
        yield name
        yield from self._nvme_paths(name)
