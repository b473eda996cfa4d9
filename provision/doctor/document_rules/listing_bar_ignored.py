"""lspci shows memory of a GPU that the kernel left without an address."""

from __future__ import annotations

from provision.doctor.cite import quoted
from provision.doctor.rule import DocumentRule, Outcome, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.names import NO_CLASS
from provision.readers.read import Reading

ID = "listing-bar-ignored"
_DISPLAY = 0x03


def check(document: Document, _model: HostModel) -> Outcome:
    reading: Reading = document.reading
    for listing in reading.listings:
        classes = {function.bdf: function.class_code >> 16 for function in listing.functions}
        for lost in listing.unplaced:
            if classes.get(lost.bdf) == _DISPLAY:
                count = "" if lost.count == 1 else f" ({lost.count} regions)"
                yield found(
                    ID,
                    "error",
                    (lost.bdf,),
                    f"{lost.bdf}: the kernel ignored memory of the GPU for which it found no address{count}",
                    (quoted(document, lost.line, lost.text),),
                    "no driver can use the GPU",
                    "firmware setup: Above 4G Decoding on, MMIO High Size at least twice the sum of all BARs",
                    "in a VM: cpu: host and a window for large BARs; pvectl doctor on the host computes its size",
                    source="pciutils, lspci.c (<ignored>); Linux, drivers/pci/setup-bus.c",
                    cause="memory without an address",
                )
            elif classes.get(lost.bdf) == NO_CLASS:
                missing = Unknown(unknown="its class is not in the text", supply="add the output of: lspci -nnv")
                yield undecided(ID, missing, f"what {lost.bdf} is, of which memory was ignored")


RULE = DocumentRule(ID, "lspci shows memory of a GPU without an address", frozenset({"pci-listing"}), check)
