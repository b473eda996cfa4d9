"""In the guest a GPU sits on the first bus, where no PCIe port is above it."""

from __future__ import annotations

from provision.doctor.cite import quoted
from provision.doctor.rule import DocumentRule, Outcome, undecided
from provision.doctor.say import found
from provision.doctor.smi_gpus import WHOLE_KINDS
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.readers.document import Document
from provision.readers.smi_model import SmiReading

ID = "guest-slot-conventional"
_FIRST_BUS = "0000:00:"


def check(document: Document, _model: HostModel) -> Outcome:
    reading: SmiReading = document.reading
    on_first = [gpu for gpu in reading.gpus if (gpu.bdf or "").startswith(_FIRST_BUS)]
    passed = [gpu for gpu in on_first if gpu.text("virtualization") == "Pass-Through"]
    for gpu in on_first:
        if isinstance(said := gpu.text("virtualization"), Unknown):
            yield undecided(ID, said, f"whether {gpu.bdf} is a guest's address")
    if passed:
        yield found(
            ID,
            "info",
            (str(gpu.bdf) for gpu in passed),
            f"{', '.join(dict.fromkeys(str(gpu.bdf) for gpu in passed))}: the guest has the GPU on its first bus, "
            "with no PCIe port above it",
            (quoted(document, gpu.line, f"GPU {gpu.bdf}, virtualization mode Pass-Through") for gpu in passed),
            "in Proxmox this is hostpciN without pcie=1 or a machine other than q35: extended configuration space, "
            "link figures and the clique's capability may be out of the driver's sight",
            "qm config VMID | grep -e machine -e hostpci   # on the host: machine: q35, and pcie=1 on each hostpciN",
            source="qemu-server, src/PVE/QemuServer/PCI.pm (print_hostpci_devices)",
            cause="the GPU is on the guest's first bus",
        )


RULE = DocumentRule(ID, "A guest has a GPU on a conventional slot", WHOLE_KINDS, check)
