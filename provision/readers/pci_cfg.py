"""``/etc/pve/mapping/pci.cfg``: PCI resource mappings as the cluster keeps them."""

from __future__ import annotations

import re

from provision.readers.file_text import FileForm
from provision.readers.signals import signal

PCI_CFG = FileForm(
    signals=(
        signal(0.9, r"\s+map\s+\S*(?:id|node|path|iommugroup|subsystem-id)=\S"),
        signal(0.2, r"\s+(?:description|mdev|live-migration-capable)\s+\S"),
    ),
    statement=re.compile(r"[A-Za-z0-9][\w.-]*\s*$|\s+(?:map|description|mdev|live-migration-capable|[a-z-]+)\s+\S"),
    needed=re.compile(r"\s+map\s"),
    is_indented=True,
    supply="give /etc/pve/mapping/pci.cfg",
)
