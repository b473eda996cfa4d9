"""The slot of an integrated GPU holds more than the GPU."""

from __future__ import annotations

from provision.doctor.fabric import kind, title, titles
from provision.doctor.finding import Evidence
from provision.doctor.rule import DocumentRule, Outcome
from provision.doctor.say import found
from provision.host.model import HostModel
from provision.pci.address import Bdf
from provision.readers.document import Document

ID = "slot-mixed-functions"
SOURCE = "qemu-server, src/PVE/QemuServer/PCI.pm"
_OTHERS = (0x0C03, 0x1080)
"""USB controllers and the security processor."""


def check(document: Document, _: HostModel) -> Outcome:
    listing = document.reading.largest
    displays = [f for f in listing.functions if f.base_class == 0x03] if listing else []
    if len(displays) != 1 or displays[0].is_nvidia_gpu:
        return
    slot = Bdf.parse(displays[0].bdf).slot
    others = [f for f in listing.functions if Bdf.parse(f.bdf).slot == slot and kind(f) in _OTHERS]
    if others:
        yield found(
            ID,
            "warning",
            (*(f.bdf for f in others), displays[0].bdf),
            f"slot {slot} of {title(displays[0])} also holds {titles(others)}",
            (Evidence(source=document.name, excerpt=f"{f.bdf} {f.description or f.ids}") for f in others),
            f"a path without function ({slot}) gives all of them to the guest: the host loses USB and what hangs on it",
            f"name single functions: hostpci0: {displays[0].bdf}, and the audio function in a slot of its own",
            source=SOURCE,
        )


RULE = DocumentRule(
    ID, "The slot of an integrated GPU also holds USB or other controllers", frozenset({"pci-listing"}), check
)
