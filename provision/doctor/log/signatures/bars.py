"""Memory regions (BARs) that got no address, and windows that are too small."""

from __future__ import annotations

from provision.doctor.log.signature import Signature

_PCI = "Linux, drivers/pci/setup-bus.c and setup-res.c"
_NVIDIA = "NVIDIA open-gpu-kernel-modules, kernel-open/nvidia/nv-pci.c"
_FOLLOW_UPS = (
    "bar-invalid",
    "probe-fail",
    "probe-routine",
    "none-init",
    "rminit",
    "rminit2",
    "attach",
    "fallen-off",
    "bridge-window-no-space",
    "irq-none",
)
_HOST = (
    (
        "dmidecode -s baseboard-product-name   # then, in its firmware: Above 4G Decoding on, MMIO High Size "
        "at its largest"
    ),
    "lspci -vv -s {bdf}   # regions without an address are shown as unassigned or disabled",
)
_GUEST = (
    "qm set VMID --cpu host   # on the Proxmox host: the guest's firmware then gets the address bits of the processor",
    "qm set VMID --bios ovmf --machine q35   # on the Proxmox host, where it has another firmware or machine",
)
_BOTH = (
    *_GUEST,
    "dmidecode -s system-product-name   # a server and no VM? then in its firmware: Above 4G Decoding, MMIO High Size",
)

SIGNATURES: tuple[Signature, ...] = (
    Signature(
        id="bar-zero",
        family="bars",
        pattern=r"BAR(?P<bar>[0-5]) is (?:(?=0M)|(?=\d{1,7}M @ 0x0 ))(?P<size>\d{1,7})M @ 0x"
        r"(?P<at>[0-9a-f]{1,16}) \(PCI:<BDF>\)",
        anchors=("M @ 0x",),
        side="either",
        severity="error",
        summary="BAR{bar} of {where} has no usable address ({size}M @ 0x{at}): the MMIO window above it is too small "
        "or was never given",
        consequence="the driver leaves the device alone; it is missing in nvidia-smi",
        remedy=_BOTH,
        in_guest=_GUEST,
        source=_NVIDIA,
        explains=_FOLLOW_UPS,
    ),
    Signature(
        id="bar-invalid",
        family="bars",
        pattern=r"This PCI I/O region assigned to your NVIDIA device is invalid",
        anchors=("This PCI I/O region",),
        side="either",
        severity="error",
        summary="a BAR of {where} has no usable address; the next line of the log says which",
        consequence="the driver leaves the device alone; it is missing in nvidia-smi",
        remedy=_BOTH,
        in_guest=_GUEST,
        source=_NVIDIA,
        explains=("probe-fail", "probe-routine", "none-init"),
        rule="cpu-caps-mmio-window",
        is_detail=True,
    ),
    Signature(
        id="bar-noassign",
        family="bars",
        pattern=r"^(?!vfio-pci)[\w-]{2,20} <BDF>: (?!VF )BAR (?P<bar>[0-5])(?::? \[mem[^\]]{1,60}\])?(?::|"
        r" \[mem[^\]]{1,60}\]:) "
        r"(?:no space for \[mem|can't assign; no space|can't assign mem|failed to assign(?: \[mem|$))",
        anchors=("no space", "can't assign", "failed to assign"),
        side="either",
        severity="error",
        summary="BAR {bar} of {where}: no space for it in the window above",
        consequence="the device works without that memory or, for a GPU, not at all",
        remedy=_BOTH,
        in_guest=_GUEST,
        source=_PCI,
        explains=(*_FOLLOW_UPS, "bar-zero"),
        rule="cpu-caps-mmio-window",
    ),
    Signature(
        id="bar-assigned",
        family="bars",
        pattern=r"^[\w-]{2,20} <BDF>: BAR (?P<bar>[0-5])(?:: assigned \[mem| \[mem[^\]]{1,60}\]: assigned)",
        anchors=(": assigned",),
        side="either",
        severity="info",
        summary="BAR {bar} of {where} got its address",
        consequence="none",
        remedy=(),
        source=_PCI,
        nature="marker",
    ),
    Signature(
        id="bar-window-end",
        family="bars",
        pattern=r"<BDF>: BAR [0-5][: ].{0,80}conflicts with PCI mem \[mem 0x0{1,16}-0x(?P<end>[0-9a-f]{8,16})\]",
        anchors=("conflicts with PCI mem",),
        side="either",
        severity="info",
        summary="all memory of the machine ends at 0x{end}",
        consequence="none",
        remedy=(),
        source=_PCI,
        nature="marker",
    ),
    Signature(
        id="bridge-window-no-space",
        family="bars",
        pattern=r"<BDF>: (?:BAR 1[345]: no space for \[mem|bridge window \[mem[^\]]{1,60}\]: (?:can't assign; no space|"
        r"failed to assign))",
        anchors=("bridge window [mem", "BAR 13: no space", "BAR 14: no space", "BAR 15: no space"),
        side="either",
        severity="info",
        summary="the bridge {where} got no memory window",
        consequence="devices below it get no memory; nothing is lost where the slot is empty",
        remedy=("lspci -t   # shows what is below the bridge",),
        source=_PCI,
    ),
    Signature(
        id="bar-io-no-space",
        family="bars",
        pattern=r"<BDF>: BAR (?P<bar>[0-5])(?:: (?:no space for|failed to assign) \[io| "
        r"\[io[^\]]{1,40}\]: (?:can't assign|failed))",
        anchors=("[io",),
        side="either",
        severity="info",
        summary="BAR {bar} of {where} (I/O ports) got no address",
        consequence="none for compute: the driver of a GPU works with its memory regions alone",
        remedy=(),
        source=_PCI,
        nature="harmless",
    ),
    Signature(
        id="bar-resize-oom",
        family="bars",
        pattern=r"No address space to allocate resized BAR1",
        anchors=("resized BAR1",),
        side="either",
        severity="warning",
        summary="there is no address space to enlarge BAR1 of {where}",
        consequence="BAR1 stays small; the GPU works, and direct access of its peers to all of its memory does not",
        remedy=_BOTH,
        in_guest=_GUEST,
        source=_NVIDIA,
    ),
    Signature(
        id="bar-realloc-fatal",
        family="bars",
        pattern=r"FATAL: Failed to re-allocate BAR1",
        anchors=("re-allocate BAR1",),
        side="either",
        severity="error",
        summary="BAR1 of {where} was taken away to enlarge it and could not be given back",
        consequence="the GPU cannot be used until the machine starts anew",
        remedy=("reboot   # the VM; the host where its log says it", *_BOTH),
        source=_NVIDIA,
        explains=("probe-fail", "probe-routine", "rminit", "rminit2"),
    ),
    Signature(
        id="static-bar1",
        family="bars",
        pattern=r"BAR1 size \(?(?:0x)?[0-9a-fx]{1,20}\)? is not large enough to map FB size",
        anchors=("is not large enough to map FB",),
        side="either",
        severity="warning",
        summary="BAR1 of {where} is smaller than its memory: it cannot be mapped whole",
        consequence="peers cannot reach all of its memory over BAR1",
        remedy=(
            "lspci -vv -s {bdf} | grep -e 'Region 1' -e Resizable   # Resizable BAR belongs on in the host's firmware",
        ),
        source="NVIDIA open-gpu-kernel-modules, src/nvidia/src/kernel/gpu/bus",
    ),
    Signature(
        id="bar-reserve",
        family="bars",
        pattern=r"^[\w-]{2,20} <BDF>: BAR (?P<bar>[0-5])(?:: can't reserve \[mem| \[mem[^\]]{1,60}\]: can't reserve)",
        anchors=("can't reserve",),
        side="host",
        severity="error",
        summary="BAR {bar} of {where}: can't reserve it, because another owner holds that memory",
        consequence="a VM with this device starts without its memory and the guest sees a dead device; a boot screen "
        "that lives in that BAR is the usual owner, and this log does not prove it",
        remedy=(
            "cat /proc/iomem   # as root: the name inside the device's range is the owner",
            (
                "policies.console: serial   # in the inventory, with another screen or BMC: pvectl plan "
                "takes the boot screen off it"
            ),
        ),
        source="Linux, drivers/pci/pci.c (pci_request_region)",
        explains=("probe-fail", "vfio-probe-failed"),
    ),
    Signature(
        id="region-busy",
        family="bars",
        pattern=r"request_mem_region failed for \d{1,7}M @ 0x",
        anchors=("request_mem_region failed",),
        side="either",
        severity="error",
        summary="the NVIDIA driver cannot have the memory of {where}: another driver or the boot screen holds it",
        consequence="the GPU is missing in nvidia-smi",
        remedy=(
            "lspci -nnk   # 'Kernel driver in use' names the owner",
            "cat /proc/iomem   # as root: the name inside the GPU's range is the owner",
        ),
        source=_NVIDIA,
        explains=("probe-fail", "probe-routine", "none-init"),
    ),
    Signature(
        id="bar-firewall",
        family="bars",
        pattern=r"failed to wait for bar firewall to lower",
        anchors=("bar firewall",),
        side="host",
        severity="error",
        summary="{where} has not come out of its reset",
        consequence="the driver cannot use it; a restart of the guest alone does not help",
        remedy=("systemctl poweroff   # on the host: a cold start resets the device for certain",),
        source=_NVIDIA,
        explains=("probe-fail", "probe-routine", "none-init", "rminit"),
    ),
    Signature(
        id="multiple-bars",
        family="bars",
        pattern=r"mapping multiple BARs|resource sanity check: requesting",
        anchors=("mapping multiple BARs", "resource sanity check"),
        side="either",
        severity="info",
        summary="a driver maps a range that reaches over several BARs or over foreign memory",
        consequence="harmless where the device works; where it does not, the BARs do not lie as its driver expects",
        remedy=("lspci -vv   # compare the regions of the GPU with the range in the message",),
        source="Linux, arch/x86/mm/ioremap.c",
    ),
)
