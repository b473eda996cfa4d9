"""Which machine wrote a kernel log: a host, a guest, or nobody can say."""

from __future__ import annotations

from provision.readers.document import Origin

# What only a guest's kernel (or the systemd in it) writes.
_GUEST = (
    "Hypervisor detected:",
    "Booting paravirtualized kernel on KVM",
    "Booting paravirtualized kernel on Xen",
    "Booting paravirtualized kernel on VMware",
    "Booting paravirtualized kernel on Hyper-V",
    "kvm-guest:",
    "kvm-clock: Using msrs",
    "clocksource: Switched to clocksource kvm-clock",
    "Detected virtualization ",
    "DMI: QEMU ",
    "DMI: Microsoft Corporation Virtual Machine",
    "DMI: VMware",
    "DMI: Amazon EC2",
    "DMI: Google Google Compute Engine",
    "DMI: OpenStack",
    "QEMU Standard PC (",
)
# What a kernel writes that owns the hardware, or hands devices to guests.
_HOST = (
    "Booting paravirtualized kernel on bare hardware",
    "vfio-pci ",
    "vfio_pci:",
    "VFIO - User Level meta-driver",
    "vfio_iommu_type1",
    "kvm_amd:",
    "kvm_intel:",
    "kvm: Nested Virtualization enabled",
    "SVM: TSC scaling supported",
    "AMD-Vi: ",
    "DMAR: ",
    "DMAR-IR: ",
    "-pve (",
    "pcie_acs_override=",
    "vfio-pci.ids=",
)


class OriginWatch:
    """Gathers what the messages of one log say about the machine."""

    def __init__(self) -> None:
        self._is_guest = False
        self._is_host = False

    def see(self, text: str) -> None:
        """A guest may have a virtual IOMMU and guests of its own: one word of a guest decides."""
        if not self._is_guest:
            self._is_guest = any(word in text for word in _GUEST)
        if not self._is_host:
            self._is_host = any(word in text for word in _HOST)

    def origin(self) -> Origin:
        if self._is_guest:
            return "guest"
        return "host" if self._is_host else "unknown"
