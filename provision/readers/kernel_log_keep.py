"""Keeps the messages of a log of any length in bounded memory."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from provision.evidence import Maybe
from provision.readers.kernel_log_record import Record
from provision.readers.kernel_log_time import NO_TIME, Moment

SAME_KEPT = 8
"""So many messages that differ only in numbers are kept one by one; the rest is counted."""
TOPIC_KEPT = 40_000
"""Messages about devices, the IOMMU, drivers and faults that are kept."""
OTHERS_KEPT = 10_000
"""All other messages that are kept."""

TOPICS = (
    "NVRM", "nvidia", "nvlink", "nouveau", "DMAR", "AMD-Vi", "iommu", "IOMMU", "vfio", "VFIO", "pci", "PCI", "AER",
    "BAR", "GPU", "ommand line", "cmdline", "ypervisor", "virtualiz", "kvm", "KVM", "irq", "IRQ", "Linux version",
    "DMI:", "segfault", "ut of memory", "oom", "BUG", "lockup", "blocked for", "mce", "MCE", "Hardware Error", "drm",
    "x2apic", "remap", "_OSC", "taint", "irmware", "rejected", "Lockdown", "lockdown", "snd_hda", "hostpci", "panic",
    "Oops", "protection fault", "Unknown symbol", "disagrees about version", "agic", "swiotlb", "SEV", "mapping",
    "split_lock", "split lock", "only root can", "q35", "sanity check", "boot-tool", "VMID", "root=", "update-grub",
    "device", "dmar", "does not match", "perf: ",
)  # fmt: skip
"""Words of which every message has one that a signature of the doctor looks for (a test holds it to that)."""

_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{4,}")
_ADDRESS = re.compile(r"[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?")


@dataclass(slots=True)
class _Rest:
    """What was counted onto the last kept message of its kind."""

    kept: int
    index: int
    repeats: int = 0
    last_line: int = 0
    last_time: Maybe[Moment] = NO_TIME


class Keeper:
    """Takes messages one by one; memory is bounded by the three numbers above."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._kinds: dict[tuple[int, str, str], _Rest] = {}
        self._kept = {True: 0, False: 0}
        self.dropped = 0
        """Messages that are neither kept nor counted onto a kept one."""

    def take(self, record: Record) -> None:
        key = _kind(record)
        rest = self._kinds.get(key)
        if rest is not None and rest.kept >= SAME_KEPT:
            rest.repeats += 1
            rest.last_line, rest.last_time = record.line, record.time
            return
        is_topic = _is_topic(record.text)
        if self._kept[is_topic] >= (TOPIC_KEPT if is_topic else OTHERS_KEPT):
            self.dropped += 1
            return
        self._kept[is_topic] += 1
        self._records.append(record)
        self._kinds[key] = _Rest((rest.kept if rest else 0) + 1, len(self._records) - 1)

    def records(self) -> tuple[Record, ...]:
        for rest in self._kinds.values():
            if rest.repeats:
                self._records[rest.index] = replace(
                    self._records[rest.index],
                    repeats=rest.repeats,
                    last_line=rest.last_line,
                    last_time=rest.last_time,
                )
        return tuple(self._records)


def _is_topic(text: str) -> bool:
    for word in TOPICS:  # noqa: SIM110 (a plain loop is twice as fast, and this runs for every message)
        if word in text:
            return True
    return False


def _kind(record: Record) -> tuple[int, str, str]:
    """Messages of one boot about one device that differ only in long numbers are of one kind."""
    address = _ADDRESS.search(record.text)
    return (record.boot, address[0] if address else "", _NUMBERS.sub("#", record.text))
