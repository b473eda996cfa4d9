"""vfio-pci and resets: what happens when a device is handed to a VM, or comes back from it."""

from __future__ import annotations

from provision.doctor.log.signature import Signature

_VFIO = "Linux, drivers/vfio/pci"
_PCI = "Linux, drivers/pci/pci.c"
_QEMU = "QEMU, hw/vfio"
_COLD = (
    "qm set VMID --onboot 0   # start no VM with it until it is well",
    "systemctl poweroff   # a cold start of the host brings it back for certain",
)
_AWAKE = "echo 'options vfio-pci disable_idle_d3=1' > /etc/modprobe.d/pvectl-d3.conf && update-initramfs -u -k all"

SIGNATURES: tuple[Signature, ...] = (
    Signature(
        id="flr-timeout",
        family="vfio",
        pattern=r"<BDF>: not ready (?P<ms>\d{1,8})ms after (?P<reset>[\w>-]{2,14}(?: reset)?); giving up",
        anchors=("giving up",),
        side="host",
        severity="error",
        summary="{where} did not come back after its reset ({reset}): given up after {ms} ms",
        consequence="no VM can use it before the host starts cold; a start that is tried may hang the host",
        remedy=_COLD,
        source=_PCI,
        explains=("flr-waiting", "pending-transaction", "power-state", "vfio-bar-restore"),
    ),
    Signature(
        id="flr-waiting",
        family="vfio",
        pattern=r"<BDF>: not ready (?P<ms>\d{1,8})ms after (?P<reset>[\w>-]{2,14}(?: reset)?); waiting",
        anchors=("; waiting",),
        side="host",
        severity="warning",
        summary="{where} is slow to come back after its reset ({reset}): {ms} ms",
        consequence="the VM waits; where the last line says that the kernel gave up, the device is lost",
        remedy=("dmesg -w   # watch whether it comes back",),
        source=_PCI,
        explains=("pending-transaction",),
        is_detail=True,
    ),
    Signature(
        id="pending-transaction",
        family="vfio",
        pattern=r"<BDF>: timed out waiting for pending transaction",
        anchors=("waiting for pending transaction",),
        side="host",
        severity="warning",
        summary="{where} was reset while it had work under way",
        consequence="it may not come back; shut the guest down with its driver unloaded instead of killing it",
        remedy=("qm shutdown VMID   # instead of: qm stop",),
        source=_PCI,
    ),
    Signature(
        id="power-state",
        family="vfio",
        pattern=r"(?:<BDF>: )?(?:Refused to change power state|Unable to change power state from|can't "
        r"change power state from"
        r"|vfio: Unable to power on device, stuck in D3)",
        anchors=("change power state", "stuck in D3"),
        side="host",
        severity="error",
        summary="{where} does not wake up from its sleep",
        consequence="it answers nothing; a VM with it fails or hangs",
        remedy=(_AWAKE, *_COLD[1:]),
        source=_PCI,
        explains=("probe-fail", "vfio-probe-failed"),
    ),
    Signature(
        id="vfio-bar-restore",
        family="vfio",
        pattern=r"<BDF>: vfio_bar_restore: reset recovery - restoring BARs",
        anchors=("restoring BARs",),
        side="host",
        severity="warning",
        summary="{where} was reset behind the back of vfio: restoring BARs",
        consequence="something else than QEMU reset it, or its link went down; the guest lost what it was doing",
        remedy=("dmesg | grep -e AER -e 'Link Down'   # what happened just before",),
        source=_VFIO,
    ),
    Signature(
        id="vfio-probe-failed",
        family="vfio",
        pattern=r"vfio-pci(?: <BDF>: probe with driver vfio-pci|: probe of "
        r"(?P<slot>[0-9a-f:]{7,16})\.[0-7]) failed with error (?P<errno>-\d{1,4})",
        anchors=("vfio-pci",),
        side="host",
        severity="error",
        summary="vfio-pci could not take {where} (error {errno})",
        consequence="a VM with it does not start",
        remedy=("dmesg | grep {bdf}   # the line before says why",),
        source=_VFIO,
    ),
    Signature(
        id="vfio-device-request",
        family="vfio",
        pattern=r"<BDF>: (?:Relaying device request to user|No device request channel registered)",
        anchors=("device request",),
        side="host",
        severity="warning",
        summary="somebody wants {where} back while a VM uses it",
        consequence="an unbind or a removal waits until the VM lets go of it, and may hang",
        remedy=("qm list; qm stop VMID   # the VM that holds it",),
        source=_VFIO,
    ),
    Signature(
        id="group-not-viable",
        family="vfio",
        pattern=r"group (?P<group>\d{1,5}) is not viable",
        anchors=("is not viable",),
        side="host",
        severity="error",
        summary="IOMMU group {group} is not viable: a device in it is still bound to a driver of the host",
        consequence="the VM does not start",
        remedy=("ls -l /sys/kernel/iommu_groups/*/devices   # which devices share the group", "pvectl doctor local"),
        source=_QEMU,
        rule="group-foreign-device",
    ),
    Signature(
        id="vfio-no-remapping",
        family="vfio",
        pattern=r"No interrupt remapping(?: support)?\b.{0,40}(?:allow_unsafe_interrupts|for this "
        r"platform)|No interrupt remapping support",
        anchors=("No interrupt remapping",),
        side="host",
        severity="error",
        summary="the platform does not remap interrupts: vfio refuses the device",
        consequence="the VM does not start; allowing it lets a guest forge interrupts of the host",
        remedy=(
            "dmesg | grep -e DMAR-IR -e 'AMD-Vi: Int'   # then turn on x2APIC or interrupt remapping in the firmware",
        ),
        source="Linux, drivers/vfio/vfio_iommu_type1.c",
        explains=("vfio-set-iommu",),
    ),
    Signature(
        id="vfio-set-iommu",
        family="vfio",
        pattern=r"[Ff]ailed to set iommu for container: (?P<reason>[A-Z][a-z ]{3,40})",
        anchors=("set iommu for container",),
        side="host",
        severity="error",
        summary="the IOMMU refused the device's group: {reason}",
        consequence="the VM does not start; without interrupt remapping the reason is: Operation not permitted",
        remedy=("dmesg | grep -e 'nterrupt remapping' -e 'IRQ remapping'",),
        source=_QEMU,
    ),
    Signature(
        id="vfio-set-group",
        family="vfio",
        pattern=r"Failed to set group container: Invalid argument",
        anchors=("set group container",),
        side="host",
        severity="error",
        summary="the group's domain is of a type that vfio cannot take over (identity)",
        consequence="the VM does not start",
        remedy=(
            (
                "cat /sys/kernel/iommu_groups/*/type   # 'identity' may be changed: echo DMA > .../type, "
                "with no driver bound"
            ),
        ),
        source=_QEMU,
    ),
    Signature(
        id="vfio-group-denied",
        family="vfio",
        pattern=r"error getting device from group (?P<group>\d{1,5}): Permission denied",
        anchors=("error getting device from group",),
        side="host",
        severity="error",
        summary="the kernel does not give out a device of group {group}: permission denied",
        consequence="the VM does not start; some kernels refuse what an older one allowed",
        remedy=(
            (
                "proxmox-boot-tool kernel list; proxmox-boot-tool kernel pin VERSION   # the last kernel "
                "with which it worked"
            ),
        ),
        source=_QEMU,
    ),
    Signature(
        id="vfio-open-failed",
        family="vfio",
        pattern=r"(?:[Cc]ould not open|failed to open) '?/dev/vfio/(?P<group>\d{1,5}|devices/vfio\d{1,5})",
        anchors=("/dev/vfio/",),
        side="host",
        severity="error",
        summary="/dev/vfio/{group} cannot be opened",
        consequence="the VM does not start: the device is not bound to vfio-pci, or another VM holds it",
        remedy=("lspci -nnk | grep -A3 -e NVIDIA   # 'Kernel driver in use' says who holds the device",),
        source=_QEMU,
    ),
    Signature(
        id="vfio-group-attached",
        family="vfio",
        pattern=r"group (?P<group>\d{1,5}) (?:is already attached|used in multiple address spaces)",
        anchors=("is already attached", "used in multiple address spaces"),
        side="host",
        severity="error",
        summary="IOMMU group {group} is in use already",
        consequence="the VM does not start: two devices of one group cannot go to two VMs",
        remedy=("pvectl doctor local   # which devices share the group",),
        source=_QEMU,
    ),
    Signature(
        id="vfio-intx-busy",
        family="vfio",
        pattern=r"interrupt INTX-0: VFIO_DEVICE_SET_IRQS failure: Device or resource busy",
        anchors=("INTX-0",),
        side="host",
        severity="warning",
        summary="the interrupt line (INTx) of a device is shared with another one",
        consequence="the VM does not start with nointxmask=1; a line that is shared below one switch may "
        "also get stuck",
        remedy=("lspci -vv | grep -e '^[0-9a-f]' -e 'pin A'   # which devices share the line",),
        source=_QEMU,
    ),
    Signature(
        id="vfio-dma-map",
        family="vfio",
        pattern=r"(?:VFIO_MAP_DMA failed: (?P<reason>[A-Z][a-z ]{3,40})|"
        r"vfio_(?:container_)?dma_map\(.{1,120}\) = (?P<errno>-\d{1,4}))",
        anchors=("VFIO_MAP_DMA failed", "dma_map("),
        side="host",
        severity="warning",
        summary="QEMU could not map memory or a BAR for the device ({reason}{errno})",
        consequence="for main memory the VM does not start; for a BAR, GPUs cannot reach each other's "
        "memory, whatever the "
        "guest says",
        remedy=("qm set VMID --cpu host,phys-bits=host   # addresses beyond the IOMMU's width are refused (-22)",),
        source="QEMU, hw/vfio/listener.c",
    ),
    Signature(
        id="vfio-p2p-bars",
        family="vfio",
        pattern=r"PCI peer-to-peer transactions on BARs are not supported",
        anchors=("peer-to-peer transactions on BARs",),
        side="host",
        severity="warning",
        summary="QEMU could not put the BAR of a device into the IOMMU: peers cannot reach it",
        consequence="nothing for a single GPU; with several, peer-to-peer access cannot work even if the guest says OK",
        remedy=(
            "qm config VMID | grep args   # iommufd without BAR mapping, or too few address bits, are the usual causes",
        ),
        source="QEMU, hw/vfio/listener.c",
        explains=("vfio-dma-map",),
    ),
    Signature(
        id="irq-nobody-cared",
        family="vfio",
        pattern=r"irq (?P<irq>\d{1,5}): nobody cared",
        anchors=("nobody cared",),
        side="host",
        severity="error",
        summary="irq {irq}: nobody cared: a device pulls an interrupt line (INTx) that no driver "
        "answers, and the kernel "
        "turned the line off",
        consequence="every device on that line hangs, and the host may lock up; two passed devices below "
        "one switch that share "
        "a line are the usual case when vfio_intx_handler is its only handler",
        remedy=(
            "grep -e vfio -e pcieport /proc/interrupts   # who is on that line",
            (
                "lspci -vv | grep -e '^[0-9a-f]' -e 'pin A'   # devices that share it; give a VM one of "
                "them, or let their drivers use MSI"
            ),
        ),
        source="Linux, kernel/irq/spurious.c",
        explains=("irq-disabled", "vfio-intx-busy"),
    ),
    Signature(
        id="irq-disabled",
        family="vfio",
        pattern=r"Disabling IRQ #(?P<irq>\d{1,5})",
        anchors=("Disabling IRQ #",),
        side="host",
        severity="error",
        summary="the kernel turned interrupt line {irq} off",
        consequence="every device on that line hangs",
        remedy=("grep -e vfio -e pcieport /proc/interrupts   # who is on that line",),
        source="Linux, kernel/irq/spurious.c",
        is_detail=True,
    ),
)
