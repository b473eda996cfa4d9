"""For each rule a host on which it fires, one that is nearly so, and the fact without which it cannot decide."""

from __future__ import annotations

from dataclasses import dataclass

from doctor_hosts import (
    CLIQUE,
    ENDPOINT,
    GIB,
    GRUB_TEXT,
    IDENTITY,
    INTERFACES,
    LINK,
    MAPPINGS,
    MIB,
    P2P,
    POOL,
    PORT,
    VM,
    Build,
    changed,
    function,
    functions,
    gpu,
    proven,
    tokens,
)

from provision.envelope import dumps, wrap
from provision.host.model import HugePages, IommuGroup
from provision.host.p2p_host import host_part
from provision.pci.model import AcsState, Bar, ErrorCounts, Link

GPU, AUDIO, PORT_ABOVE, OTHER = "0000:41:00.0", "0000:41:00.1", "0000:40:01.1", "0000:81:00.0"
UNIT = "/etc/systemd/system/pvectl-mapping.service"
CONFIG = "proxmox.vms.0.config_text"


@dataclass(frozen=True)
class Example:
    """``without`` is the path of a fact of ``sick``; ``None`` where the rule rests on facts that are always there.

    ``also`` are other rules that fire on the sick host, for a reason that cannot be kept apart.
    """

    rule: str
    severity: str
    says: str
    """Part of the summary."""
    sick: Build
    near: Build
    without: str | None
    also: frozenset[str] = frozenset()


def vm(*lines: str, base: str = VM, **build) -> Build:
    """A host whose VM has more options."""
    return Build(vms={100: base + "".join(f"{line}\n" for line in lines)}, **build)


def clique(text: str, **build) -> Build:
    return Build(vms={100: CLIQUE.replace("clique=0", f"clique={text}") + VM}, **build)


def group(**facts) -> tuple[IommuGroup, ...]:
    return (IommuGroup(number=31, members=(GPU, AUDIO), **facts), IommuGroup(number=45, members=(OTHER,), **facts))


def driven(driver: str, **facts) -> tuple:
    return tuple(f.model_copy(update={"driver": driver, **facts}) if f.is_nvidia_gpu else f for f in functions())


def port(**facts) -> tuple:
    acs = AcsState(**{"offset": 0x2A0, "capability": 0x5F, "control": 0x1D, **facts})
    return changed(PORT_ABOVE, config=PORT.model_copy(update={"acs": acs}))


def linked(**facts) -> tuple:
    link = Link(**{**LINK.model_dump(), **facts})
    return changed(GPU, link=link, config=ENDPOINT.model_copy(update={"link": link}))


def small(**facts) -> tuple:
    """GPUs whose memory is not shown at all, as a card without Resizable BAR has it."""
    plain = ENDPOINT.model_copy(update={"rebar": False})
    return tuple(
        gpu(f.bdf, f.iommu_group, 256 * MIB, parent=f.parent, config=plain, **facts) if f.is_nvidia_gpu else f
        for f in functions()
    )


def switch(driver: str, control: int, ids: tuple[int, int] = (0x10B5, 0x8747)) -> tuple:
    """Three GPUs below one switch, and the two of every host."""
    acs = AcsState(offset=0x100, capability=0x1F, control=control)
    down = PORT.model_copy(update={"acs": acs, "port_type": "downstream-port"})
    made = [function("0000:c1:00.0", *ids, 0x060400, 60, driver="pcieport", config=PORT)]
    for number in range(3):
        bus, at = 0xC3 + number, f"0000:c2:{number:02x}.0"
        made.append(function(at, *ids, 0x060400, 61 + number, driver="pcieport", config=down, parent="0000:c1:00.0"))
        made.append(gpu(f"0000:{bus:02x}:00.0", 70 + number, parent=at, driver=driver))
    return (*functions(), *made)


def neighbor(bdf: str, number: int, class_code: int = 0x020000, **facts):
    return function(bdf, 0x8086, 0x1521, class_code, number, driver="igb", **facts)


def merged(acs) -> tuple:
    ports = (
        function("0000:00:1c.0", 0x8086, 0xA110, 0x060400, 80, driver="pcieport", config=acs),
        function("0000:00:1c.1", 0x8086, 0xA111, 0x060400, 80, driver="pcieport", config=PORT),
    )
    return (*functions(), *ports, neighbor("0000:05:00.0", 80), neighbor("0000:06:00.0", 80))


RAW = VM.replace("mapping=gpu-0", "0000:41:00.0")


def recorded(ids: str) -> str:
    who = {"ids": ids, "subsystem_ids": None, "dsn": None, "path": "pci0000:40/01.1/00.0"}
    return dumps(wrap("identity", {"devices": {GPU: who}}, created="2025-01-01T00:00:00Z"))


NO_ACS = PORT.model_copy(update={"acs": None})
PLAIN = (
    function("0000:40:01.1", 0x1022, 0x153E, 0x060400, 0, driver="pcieport", config=NO_ACS, root="pci0000:40"),
    gpu("0000:41:00.0", 0, parent="0000:40:01.1", root="pci0000:40"),
    function("0000:41:00.1", 0x10DE, 0x22E8, 0x040300, 0, parent="0000:40:01.1", root="pci0000:40"),
    function("0000:80:01.1", 0x1022, 0x153E, 0x060400, 1, driver="pcieport", config=NO_ACS, root="pci0000:80"),
    gpu("0000:81:00.0", 1, parent="0000:80:01.1", root="pci0000:80"),
)
"""A whole small host: its groups can be computed, and an ACS override splits ports from cards."""
NUMBERED = MAPPINGS.replace("iommugroup=31", "iommugroup=0").replace("iommugroup=45", "iommugroup=1")

CARD = MAPPINGS + (
    "card\n\tmap id=10de:2bb5,iommugroup=31,node=pve1,path=0000:41:00.0,subsystem-id=10de:204e\n"
    "\tmap id={},iommugroup=31,node=pve1,path=0000:41:00.1,subsystem-id=10de:204e\n\n"
)
GEFORCE = MAPPINGS.replace("10de:2bb5,iommugroup=45", "10de:2684,iommugroup=45")
SXM = MAPPINGS.replace("10de:2bb5", "10de:2330")
NVSWITCH = (*driven("vfio-pci", device=0x2330), function("0000:a0:00.0", 0x10DE, 0x22A3, 0x068000, 90))
PAGES = (HugePages(node=0, size=GIB, total=300, free=300),)
SHELL = GRUB_TEXT + 'for f in /etc/default/grub.d/*.cfg; do . "$f"; done\n'

QEMU = {"proxmox": {"qemu": "10.1.2"}}
BRIDGED = "auto vmbr1\niface vmbr1 inet manual\n\tbridge-ports {}\n"

HOST = (
    Example(
        "bridge-port-missing",
        "warning",
        "vmbr1 is to have enp4s0, and there is no such interface",
        Build(files={INTERFACES: BRIDGED.format("enp4s0")}),
        Build(files={INTERFACES: BRIDGED.format("bond0 none eno1.20 regex")}),
        "interfaces",
    ),
    Example(
        "iommu-no-intremap",
        "error",
        "interrupts are not remapped",
        Build(kernel={"interrupt_remapping": False}),
        Build(),
        "kernel.interrupt_remapping",
    ),
    Example(
        "iommu-unsafe-interrupts",
        "error",
        "allow_unsafe_interrupts",
        Build(kernel={"unsafe_interrupts": True}),
        Build(kernel={"unsafe_interrupts": None}),
        "kernel.unsafe_interrupts",
    ),
    Example(
        "iommu-translated-host-gpus",
        "warning",
        "2 GPUs are used by the host",
        Build(functions=driven("nvidia"), groups=group(type="DMA-FQ")),
        Build(functions=driven("nvidia"), groups=group(type="identity")),
        "iommu.groups.0.type",
    ),
    Example(
        "group-rmrr",
        "error",
        "direct access to memory",
        Build(groups=group(reserved_regions=("0x00000000bdf6f000 0x00000000bdf7efff direct",))),
        Build(groups=group(reserved_regions=("0x00000000fee00000 0x00000000feefffff msi", "0x1 0x2 direct-relaxable"))),
        "iommu.groups.0.reserved_regions",
    ),
    Example(
        "group-functions-split",
        "warning",
        "the host still has 0000:41:00.1",
        Build(functions=changed(AUDIO, driver="snd_hda_intel")),
        Build(functions=changed(AUDIO, driver=None)),
        "pci.3.driver",
    ),
    Example(
        "group-shared",
        "warning",
        "IOMMU group 80 holds",
        Build(functions=(*functions(), neighbor("0000:05:00.0", 80), neighbor("0000:06:00.0", 80))),
        Build(functions=(*functions(), neighbor("0000:05:00.0", 80), neighbor("0000:05:00.1", 80))),
        "pci.2.iommu_group",
    ),
    Example(
        "group-merged-no-acs",
        "warning",
        "IOMMU group 80 is merged because of 0000:00:1c.0",
        Build(functions=merged(PORT.model_copy(update={"acs": None}))),
        Build(functions=merged(PORT)),
        "pci.0.config.acs",
        frozenset({"group-shared"}),
    ),
    Example(
        "acs-override-suspected",
        "warning",
        "in different IOMMU groups",
        Build(functions=changed(AUDIO, iommu_group=32)),
        Build(functions=changed(AUDIO, iommu_group=31)),
        "pci.3.iommu_group",
    ),
    Example(
        "acs-runtime-cleared",
        "error",
        "SV, RR, CR, UF of its ACS switched off",
        Build(functions=port(control=0)),
        Build(functions=port(capability=0, control=0)),
        "pci.1.config.acs",
    ),
    Example(
        "acs-override-idle",
        "info",
        "every port above the GPUs has ACS",
        tokens("pcie_acs_override=downstream"),
        Build(cmdline=tokens("pcie_acs_override=downstream").cmdline, functions=changed(PORT_ABOVE, config=ENDPOINT)),
        "pci.1.config.acs",
        frozenset({"cmdline-risky"}),
    ),
    Example(
        "acs-redirect-host-gpus",
        "warning",
        "3 GPUs below one switch",
        Build(functions=switch("nvidia", 0x1D)),
        Build(functions=switch("nvidia", 0x11)),
        "pci.8.config.acs",
    ),
    Example(
        "bar-unassigned",
        "error",
        "BAR 1 (128 GiB) has no address",
        Build(
            functions=changed(GPU, bars=(Bar(index=1, start=0, size=128 * GIB, is_64bit=True, is_prefetchable=True),))
        ),
        Build(functions=changed(GPU, bars=(Bar(index=5, start=0, size=128, is_io=True),))),
        "pci.2.bars",
    ),
    Example(
        "bar1-small",
        "warning",
        "shows 256 MiB of its memory",
        Build(functions=tuple(gpu(f.bdf, 31, 256 * MIB, parent=f.parent) if f.bdf == GPU else f for f in functions())),
        Build(functions=small()),
        "pci.2.config.rebar",
    ),
    Example(
        "link-width-degraded",
        "warning",
        "x8 of x16",
        Build(functions=linked(current_width=8)),
        Build(functions=linked(current_width=8, max_width=8)),
        "pci.2.link.current_width",
    ),
    Example(
        "link-speed-low",
        "info",
        "2.5GT/s of 32GT/s",
        Build(functions=linked(current_gen=1)),
        Build(functions=linked(current_gen=1, max_gen=1)),
        "pci.2.link.current_gen",
    ),
    Example(
        "reset-none",
        "warning",
        "has no reset method",
        Build(functions=changed(GPU, reset_methods=())),
        Build(functions=changed(AUDIO, reset_methods=())),
        "pci.2.reset_methods",
    ),
    Example(
        "reset-no-flr",
        "info",
        "FLReset-",
        Build(functions=changed(GPU, config=ENDPOINT.model_copy(update={"has_flr": False}))),
        Build(functions=changed(AUDIO, config=ENDPOINT.model_copy(update={"has_flr": False}))),
        "pci.2.config.has_flr",
    ),
    Example(
        "reset-bus-shared",
        "warning",
        "which it shares with 0000:41:01.0",
        Build(functions=(*changed(GPU, reset_methods=("bus",)), neighbor("0000:41:01.0", 80, parent=PORT_ABOVE))),
        Build(functions=(*functions(), neighbor("0000:41:01.0", 80, parent=PORT_ABOVE))),
        "pci.2.reset_methods",
    ),
    Example(
        "aer-errors",
        "warning",
        "2 nonfatal",
        Build(functions=changed(PORT_ABOVE, errors=ErrorCounts(correctable=0, nonfatal=2, fatal=0))),
        Build(functions=changed(PORT_ABOVE, errors=ErrorCounts(correctable=3, nonfatal=0, fatal=0))),
        "pci.1.errors",
    ),
    Example(
        "power-d3cold",
        "warning",
        "is in D3cold",
        Build(functions=changed(GPU, power_state="D3cold")),
        Build(functions=changed(GPU, power_state="D3hot")),
        "pci.2.power_state",
    ),
    Example(
        "switch-write-collapse",
        "info",
        "3 GPUs are below Broadcom PEX890xx",
        Build(functions=switch("vfio-pci", 0x1D, (0x1000, 0xC030))),
        Build(functions=switch("vfio-pci", 0x1D)),
        None,
    ),
    Example(
        "host-console-on-gpu",
        "warning",
        "the host's screen",
        Build(functions=changed(GPU, boot_vga=True)),
        Build(functions=changed(GPU, boot_vga=False), kernel={"boot_framebuffer": (0x90000000, 0x907FFFFF)}),
        "pci.2.boot_vga",
    ),
    Example(
        "persistenced-on-vfio-host",
        "warning",
        "nvidia-persistenced.service runs",
        Build(functions=driven("nvidia"), kernel={"services": ("nvidia-persistenced.service",)}),
        Build(kernel={"services": ("nvidia-persistenced.service",)}),
        "kernel.services",
    ),
    Example(
        "vfio-not-bound",
        "warning",
        "which a driver of the host has",
        vm("onboot: 1", functions=driven("nouveau"), files={UNIT: "[Unit]\n"}),
        vm("onboot: 0", functions=driven("nouveau")),
        "pci.2.driver",
    ),
    Example(
        "vfio-ids-shared",
        "warning",
        "ids= names 10de:2bb5",
        Build(
            cmdline=tokens("vfio-pci.ids=10de:2bb5").cmdline,
            grub=tokens("vfio-pci.ids=10de:2bb5").grub,
            functions=changed(OTHER, driver="nvidia"),
        ),
        tokens("vfio-pci.ids=10de:2bb5"),
        "pci.5.driver",
    ),
    Example(
        "modules-obsolete",
        "info",
        "vfio_virqfd",
        Build(files={"/etc/modules": "vfio\nvfio_virqfd\n"}),
        Build(files={"/etc/modules": "vfio\n# vfio_virqfd\n"}),
        "files./etc/modules.content",
    ),
    Example(
        "mapping-pool-order",
        "info",
        "takes 1 of the 2 devices of mapping gpu-0",
        Build(mappings=POOL, vms={100: VM.replace("hostpci1: mapping=gpu-1,pcie=1\n", "")}),
        Build(mappings=POOL, vms={100: VM.replace("gpu-1", "gpu-0")}),
        "proxmox.mappings",
    ),
    Example(
        "mapping-alternatives",
        "error",
        "are alternatives, not one bundle",
        Build(mappings=CARD.format("10de:22e8")),
        Build(),
        "proxmox.mappings",
    ),
    Example(
        "mapping-drift",
        "warning",
        "the next boot gives other IOMMU groups to devices of mapping gpu-0, gpu-1",
        Build(
            functions=PLAIN,
            mappings=NUMBERED,
            grub=GRUB_TEXT.replace("iommu=pt", "iommu=pt pcie_acs_override=downstream"),
        ),
        Build(functions=PLAIN, mappings=NUMBERED, grub=GRUB_TEXT.replace("iommu=pt", "iommu=pt hugepages=8")),
        "pci.0.config",
        frozenset({"cmdline-not-applied"}),
    ),
    Example(
        "grub-needs-shell",
        "info",
        "a shell must read this",
        Build(grub=SHELL),
        Build(grub=GRUB_TEXT + "GRUB_TIMEOUT=5\n"),
        "files./etc/default/grub.content",
    ),
)

VMS = (
    Example(
        "vm-machine-i440fx",
        "error",
        "hostpci0, hostpci1 on machine type i440fx",
        vm(base=VM.replace("machine: q35\n", "")),
        Build(),
        CONFIG,
    ),
    Example(
        "vm-seabios-bigbar",
        "warning",
        "starts with SeaBIOS",
        vm(base=VM.replace("bios: ovmf\n", "")),
        vm(base=VM.replace("bios: ovmf\n", ""), functions=small()),
        "pci.2.bars",
        frozenset({"reset-blackwell"}),
    ),
    Example(
        "reset-blackwell",
        "warning",
        "has no UEFI firmware",
        vm(base=VM.replace("bios: ovmf\n", ""), functions=small()),
        Build(functions=small()),
        CONFIG,
    ),
    Example(
        "vm-cpu-generic",
        "info",
        "processor type x86-64-v2-AES",
        vm(base=VM.replace("cpu: host", "cpu: x86-64-v2-AES"), functions=small()),
        vm(base=VM.replace("cpu: host", "cpu: EPYC-Turin"), functions=small()),
        CONFIG,
    ),
    Example(
        "vm-hypervisor-hidden",
        "info",
        "hides the hypervisor: hidden=1",
        vm(base=VM.replace("cpu: host", "cpu: host,hidden=1")),
        vm(base=VM.replace("cpu: host", "cpu: host,hidden=0")),
        CONFIG,
    ),
    Example(
        "clique-unreachable",
        "error",
        "there is no hostpci5",
        clique("0 -set device.hostpci5.x-nv-gpudirect-clique=0"),
        clique("0"),
        CONFIG,
    ),
    Example("clique-invalid", "error", "'16' is no number from 0 to 15", clique("16"), clique("15"), CONFIG),
    Example(
        "clique-unsafe",
        "error",
        "joins different models",
        clique("0", functions=changed(OTHER, device=0x2BB1), mappings=GEFORCE.replace("2684", "2bb1")),
        clique("0"),
        "proxmox.mappings",
    ),
    Example(
        "clique-pointless",
        "info",
        "clique 0 has one member",
        vm("args: -set device.hostpci0.x-nv-gpudirect-clique=0"),
        clique("0"),
        CONFIG,
    ),
    Example(
        "vm-clique-untested",
        "warning",
        "no test of it is recorded",
        clique("0", files={P2P: None}),
        clique("0", files={P2P: proven(host=host_part(clique("0", **QEMU).model(), 100))}, **QEMU),
        f"files.{P2P}.content",
    ),
    Example(
        "clique-cross-socket",
        "warning",
        "spans NUMA nodes 0, 1",
        clique("0", functions=changed(OTHER, numa_node=1)),
        clique("0"),
        "pci.5.numa_node",
    ),
    Example(
        "clique-vgpu",
        "error",
        "a clique on a share of a GPU (hostpci0: mdev=nvidia-63)",
        Build(vms={100: CLIQUE + VM.replace("gpu-0,", "gpu-0,mdev=nvidia-63,")}),
        vm(base=VM.replace("gpu-0,", "gpu-0,mdev=nvidia-63,")),
        CONFIG,
    ),
    Example(
        "vm-viommu-with-p2p",
        "warning",
        "machine has viommu=virtio",
        vm(base=VM.replace("machine: q35", "machine: q35,viommu=virtio")),
        Build(),
        CONFIG,
    ),
    Example(
        "vm-iommufd-old",
        "warning",
        "uses iommufd on kernel 6.14",
        vm("args: -object iommufd,id=iommufd0"),
        vm("args: -object iommufd,id=iommufd0", kernel={"release": "6.19.1-1-pve"}),
        "kernel.release",
    ),
    Example(
        "vm-args-vfio-unmanaged",
        "warning",
        "args passes 0000:02:00.0",
        vm("args: -device vfio-pci,host=0000:02:00.0"),
        vm("args: -device virtio-rng-pci"),
        CONFIG,
    ),
    Example(
        "vm-pxb-in-args",
        "warning",
        "args adds pxb-pcie",
        vm("args: -device pxb-pcie,id=pxb1,bus_nr=64,numa_node=1"),
        vm("args: -device pcie-root-port,id=rp1"),
        CONFIG,
    ),
    Example(
        "vm-args-stray-word",
        "error",
        "-cpu is missing before it",
        vm("args: -smbios type=2 Skylake-Server,+avx2"),
        vm("args: -smbios type=2"),
        CONFIG,
    ),
    Example(
        "vm-args-cpu",
        "info",
        "-cpu host,+invtsc in args replaces cpu: host",
        vm("args: -cpu host,+invtsc"),
        vm("args: -smbios type=2"),
        CONFIG,
    ),
    Example(
        "vm-numa-mismatch",
        "warning",
        "stays on NUMA node 1",
        vm("affinity: 64-95"),
        vm("affinity: 32-95"),
        "kernel.numa_cpus",
    ),
    Example(
        "vm-numa-policy",
        "error",
        "numa0 has no policy",
        vm("numa0: cpus=0-7,hostnodes=0,memory=65536"),
        vm("numa0: cpus=0-7,hostnodes=0,memory=65536,policy=bind"),
        CONFIG,
    ),
    Example(
        "vm-balloon-passthrough", "info", "balloon is not 0", vm(base=VM.replace("balloon: 0\n", "")), Build(), CONFIG
    ),
    Example(
        "vm-no-hugepages",
        "info",
        "has 256 GiB of memory in small pages",
        vm(base=VM.replace("65536", "262144")),
        vm(base=VM.replace("65536", "131071")),
        CONFIG,
    ),
    Example(
        "vm-start-slow",
        "info",
        "gives it 1024 s to start",
        vm("hugepages: 1024", base=VM.replace("65536", "262144"), kernel={"huge_pages": PAGES}),
        vm("hugepages: 1024", kernel={"huge_pages": PAGES}),
        CONFIG,
    ),
    Example(
        "vm-hugepages-short",
        "error",
        "needs 64 free huge pages",
        vm("hugepages: 1024"),
        vm("hugepages: 1024", kernel={"huge_pages": PAGES}),
        "kernel.huge_pages",
    ),
    Example(
        "vm-onboot-mapping",
        "warning",
        "starts with the host",
        vm("onboot: 1", files={UNIT: None}),
        vm("onboot: 1", files={UNIT: "[Unit]\n"}),
        f"files.{UNIT}.content",
    ),
    Example(
        "vm-ha-raw-hostpci",
        "warning",
        "is under HA",
        vm(base=VM.replace("mapping=gpu-0", "0000:41:00.0"), proxmox={"ha_vms": (100,)}),
        Build(proxmox={"ha_vms": (100,)}),
        "proxmox.ha_vms",
    ),
    Example(
        "bdf-moved",
        "error",
        "at 0000:41:00.0 there is 0000:41:00.0 (RTX PRO 6000 Blackwell Server Edition), and it was 10de:2330",
        vm(base=RAW, files={IDENTITY: recorded("10de:2330")}),
        vm(base=RAW, files={IDENTITY: recorded("10de:2bb5")}),
        f"files.{IDENTITY}.content",
    ),
    Example(
        "vm-hostpci-count",
        "error",
        "hostpci16: Proxmox knows hostpci0 to hostpci15",
        vm("hostpci16: 0000:41:00.1"),
        vm("hostpci15: 0000:41:00.1"),
        CONFIG,
    ),
    Example(
        "vm-affinity-count",
        "info",
        "names 17 processors for 16",
        vm("affinity: 0-16", "cores: 16"),
        vm("affinity: 0-15", "cores: 16"),
        CONFIG,
    ),
    Example(
        "vm-secure-boot-keys",
        "info",
        "Secure Boot keys",
        vm("efidisk0: local:vm-100-disk-0,efitype=4m,pre-enrolled-keys=1", "ostype: l26"),
        vm("efidisk0: local:vm-100-disk-0,efitype=4m", "ostype: l26"),
        CONFIG,
    ),
    Example(
        "vm-driver-option",
        "info",
        "hostpci0 has driver=",
        vm(base=VM.replace("gpu-0,", "gpu-0,driver=vfio,")),
        vm(base=VM.replace("gpu-0,", "gpu-0,driver=vfio,"), version="9.1.2"),
        CONFIG,
    ),
    Example(
        "vm-nvswitch-partial",
        "warning",
        "gets 2 GPUs of an NVSwitch board",
        Build(functions=NVSWITCH, mappings=SXM),
        vm("hostpci2: 0000:a0:00.0", functions=NVSWITCH, mappings=SXM),
        "proxmox.mappings",
    ),
    Example(
        "vm-kernel-old-bigbar",
        "info",
        "kernel 6.8.12-4-pve maps their BARs",
        Build(kernel={"release": "6.8.12-4-pve"}),
        Build(functions=small(), kernel={"release": "6.8.12-4-pve"}),
        "kernel.release",
    ),
)

EXAMPLES = (*HOST, *VMS)
