"""A document: one text that somebody gave to the doctor, read as what it is."""

from __future__ import annotations

from typing import Any, Literal

from provision.evidence import Frozen

Kind = Literal[
    "pci-listing",
    "kernel-log",
    "cmdline",
    "grub-default",
    "modprobe",
    "proxmox-boot-tool-status",
    "efibootmgr",
    "vm-config",
    "pci-cfg",
    "mapping-json",
    "pvesh-json",
    "pve-commands",
    "qemu-log",
    "nvidia-smi-table",
    "nvidia-smi-query",
    "nvidia-smi-xml",
    "nvidia-params",
    "topo-matrix",
    "topo-p2p",
    "nvbandwidth",
    "p2p-bandwidth-latency-test",
    "nccl-tests",
    "nccl-log",
    "nccl-topology-xml",
]

Origin = Literal["host", "guest", "unknown"]


class Document(Frozen):
    """One text of one kind; a file with three pastes in it gives three documents."""

    name: str
    """File as the user named it (``-`` is standard input); a member of an archive is ``ARCHIVE:MEMBER``."""
    kind: Kind
    origin: Origin
    """Which machine said it, as far as the text tells."""
    first_line: int
    """Line of ``name`` at which the text begins, from 1; a reading's own lines count from there."""
    command: str = ""
    """What was typed at the prompt above it (``cat /etc/kernel/cmdline``, ``qm config 100``); empty where none is."""
    reading: Any
    """The typed reading of its reader (``provision.readers``), a frozen model."""

    def line(self, number: int) -> int:
        """Return the line in ``name`` of the reading's line ``number`` (from 1)."""
        return self.first_line + number - 1
