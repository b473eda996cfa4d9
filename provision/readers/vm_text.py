"""A VM's configuration: its file, or what ``qm config`` prints."""

from __future__ import annotations

import re

from provision.readers.file_text import FileForm
from provision.readers.signals import HEAD_LINES, head, signal

_KEYS = (
    r"acpi|affinity|agent|amd-sev|args|autostart|balloon|bios|boot|bootdisk|ciuser|cores|cpu|cpulimit|cpuunits"
    r"|description|efidisk0|hookscript|hostpci\d+|hotplug|hugepages|ide\d|ipconfig\d+|keephugepages|keyboard|kvm"
    r"|localtime|lock|machine|memory|meta|name|nameserver|net\d+|numa\d*|onboot|ostype|parallel\d|parent|protection"
    r"|rng0|sata\d|scsi\d+|scsihw|searchdomain|serial\d|shares|smbios1|smp|snaptime|sockets|spice_enhancements"
    r"|sshkeys|startdate|startup|tablet|tags|tdf|template|tpmstate0|unused\d+|usb\d+|vcpus|vga|virtio\d+|virtiofs\d"
    r"|vmgenid|vmstate|vmstatestorage|watchdog"
)
_OPTION = re.compile(rf"\s*({_KEYS}): +\S")
_HOSTPCI = r"\s*hostpci\d{1,2}: +(?:\S*(?:host|mapping)=\w|(?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2})"
_STRONG = (
    signal(0.9, _HOSTPCI),
    signal(0.6, r"\s*(?:smbios1: (?:\S+,)?uuid=|vmgenid: [0-9a-f]{8}-|scsihw: virtio|efidisk0: \S+:)"),
    signal(0.4, r"#\w+%3A "),
    signal(
        0.4, r"\s*(?:net\d+: (?:virtio|e1000e?|vmxnet3|rtl8139)=|bios: (?:ovmf|seabios)\s*$|ostype: (?:l26|win1[01]))"
    ),
    signal(0.7, r"args: -\w"),
)
_MANY = 5

VM_FILE = FileForm(
    signals=_STRONG,
    statement=re.compile(rf"(?:(?:{_KEYS}): +\S|\[[^\]]+\]\s*$)"),
    supply="give the file of the VM, or the output of: qm config VMID",
)


def recognize(text: str) -> float:
    """Options of a VM; several different ones are as good as one that nothing else has."""
    keys = {match[1] for line in head(text)[:HEAD_LINES] if (match := _OPTION.match(line))}
    if not keys:
        return 0.0
    count = min(len(keys), _MANY) / _MANY
    return max(VM_FILE.recognize(text), 0.9 * count if len(keys) > 2 else 0.0)


read = VM_FILE.read
