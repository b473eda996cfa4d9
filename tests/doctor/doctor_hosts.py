"""Hosts for the doctor: a healthy one whose every fact is known, and sick ones for the rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from provision.evidence import Maybe, Unknown
from provision.guest.fingerprint import Fingerprint, GuestPart, HostPart
from provision.guest.record import P2pRecord, SetRecord, render_records
from provision.host.model import (
    BlockDevice,
    BootLoader,
    Console,
    FileState,
    HostModel,
    Iommu,
    IommuGroup,
    Kernel,
    NetworkInterface,
    Proxmox,
    Vm,
)
from provision.host.quarantine import QUARANTINE_FILE, Quarantined, quarantine_text
from provision.pci.model import AcsState, Bar, ConfigSpace, ErrorCounts, Link, PciFunction
from provision.pve.mapping import MAPPING_FILE, MappingFile
from provision.pve.vm_config import VmConfigFile, hostpci_slots

GIB = 2**30
MIB = 2**20
GRUB = "/etc/default/grub"
KERNEL_CMDLINE = "/etc/kernel/cmdline"
MODULES = "/etc/modules"
IDENTITY = "/var/lib/pvectl/identity.json"
LOCK = "/var/lib/pvectl/lock"
ON_AN_UNKNOWN_HOST = Unknown(unknown="the host was not read")
INTERFACES = "/etc/network/interfaces"
INTERFACES_TEXT = "auto lo\niface lo inet loopback\n\nauto vmbr0\niface vmbr0 inet manual\n\tbridge-ports eno1\n"
P2P = "/var/lib/pvectl/p2p.json"
IN_QUARANTINE = Quarantined(
    bdf="0000:41:00.0", vmid=100, since="2026-01-02T03:04:05Z", fault="reset", reason="cycle 2: stuck", boot_id="old"
)
FOLDERS = ("/etc/network/interfaces.d", "/etc/default/grub.d", "/etc/modprobe.d", "/var/lib/pvectl/runs/*")
GRUB_TEXT = '# comment\nGRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT="quiet iommu=pt"\nGRUB_CMDLINE_LINUX=""\n'
CMDLINE = "BOOT_IMAGE=/boot/vmlinuz-6.14.8-2-pve root=/dev/mapper/pve-root ro quiet iommu=pt"
BOOT = BootLoader(kind="grub", cmdline_file=GRUB, evidence=("no ESP list",), secure_boot=False, firmware="efi")
MAPPINGS = """\
gpu-0
\tmap id=10de:2bb5,iommugroup=31,node=pve1,path=0000:41:00.0,subsystem-id=10de:204e

gpu-1
\tmap id=10de:2bb5,iommugroup=45,node=pve1,path=0000:81:00.0,subsystem-id=10de:204e

"""
VM = """\
#notes
bios: ovmf
cpu: host
hostpci0: mapping=gpu-0,pcie=1
hostpci1: mapping=gpu-1,pcie=1
machine: q35
memory: 65536
name: llm
balloon: 0
"""


LINK = Link(current_gen=5, current_width=16, max_gen=5, max_width=16)
ENDPOINT = ConfigSpace(
    length=4096,
    header_type=0,
    is_multifunction=True,
    port_type="endpoint",
    acs=None,
    dsn=None,
    has_flr=True,
    link=LINK,
    sriov_total_vfs=None,
    rebar=True,
    clique=None,
)
PORT = ENDPOINT.model_copy(
    update={
        "header_type": 1,
        "port_type": "root-port",
        "acs": AcsState(offset=0x2A0, capability=0x5F, control=0x1D),
        "has_flr": False,
        "rebar": False,
        "prefetch_window": (0x10000000000, 0x3FFFFFFFFFF),
    }
)


def gpu(bdf: str, group: int | None, bar1: int = 128 * GIB, **facts) -> PciFunction:
    bars = (
        Bar(index=0, start=0xB0000000, size=64 * MIB),
        Bar(index=1, start=0x10000000000, size=bar1, is_64bit=True, is_prefetchable=True),
        Bar(index=3, start=0x30000000000, size=32 * MIB, is_64bit=True, is_prefetchable=True),
    )
    return function(bdf, 0x10DE, 0x2BB5, 0x030200, group, bars=bars, **facts)


def function(bdf: str, vendor: int, device: int, class_code: int, group: int | None, **facts) -> PciFunction:
    known = {
        "subsystem_vendor": 0x10DE,
        "subsystem_device": 0x204E,
        "driver": "vfio-pci",
        "mediated": False,
        "numa_node": 0,
        "vf_bars": (),
        "link": LINK,
        "config": ENDPOINT,
        "reset_methods": ("flr", "bus"),
        "power_state": "D0",
        "d3cold_allowed": True,
        "errors": ErrorCounts(correctable=0, nonfatal=0, fatal=0),
    }
    return PciFunction(
        bdf=bdf, vendor=vendor, device=device, class_code=class_code, iommu_group=group, **{**known, **facts}
    )


def functions() -> tuple[PciFunction, ...]:
    return (
        function("0000:02:00.0", 0x8086, 0x1563, 0x020000, 12, driver="ixgbe"),
        function("0000:40:01.1", 0x1022, 0x153E, 0x060400, 31, driver="pcieport", config=PORT),
        gpu("0000:41:00.0", 31, parent="0000:40:01.1"),
        function("0000:41:00.1", 0x10DE, 0x22E8, 0x040300, 31, parent="0000:40:01.1"),
        function("0000:80:01.1", 0x1022, 0x153E, 0x060400, 44, driver="pcieport", config=PORT),
        gpu("0000:81:00.0", 45, parent="0000:80:01.1"),
    )


def proven(
    verdict: str = "PROVEN", host: Maybe[HostPart] = ON_AN_UNKNOWN_HOST, sets: tuple[SetRecord, ...] = ()
) -> str:
    """Return the record of one test of P2P in VM 100."""
    guest = GuestPart(
        kernel="6.8.0", driver="590.10.01", module="open", gpus=("2bb5 95.02 GPU-1",), parameters=(), cliques=()
    )
    mark = Fingerprint(host=host, guest=guest)
    record = P2pRecord(
        created="2026-01-02T03:04:05Z",
        level="full",
        verdict=verdict,
        reason="a word was lost",
        fingerprint=mark,
        digest=mark.digest,
        sets=sets,
    )
    return render_records({100: (record,)}, record.created)


@dataclass(frozen=True)
class Build:
    """A host by what makes it; ``model()`` is the host."""

    cmdline: Maybe[str] = CMDLINE
    grub: Maybe[str | None] = GRUB_TEXT
    files: dict[str, str | None] = field(default_factory=dict)
    boot: BootLoader = BOOT
    functions: tuple[PciFunction, ...] = field(default_factory=functions)
    mappings: str = MAPPINGS
    vms: dict[int, str] = field(default_factory=lambda: {100: VM})
    units: Maybe[tuple[str, ...]] = ("ivhd0",)
    firmware_table: Maybe[str | None] = "IVRS"
    groups: tuple[IommuGroup, ...] = ()
    phys_bits: Maybe[int] = 52
    version: Maybe[str | None] = "9.0.3"
    changes: dict[str, object] = field(default_factory=dict)
    kernel: dict[str, object] = field(default_factory=dict)
    proxmox: dict[str, object] = field(default_factory=dict)

    def model(self) -> HostModel:
        return HostModel(
            hostname="pve1",
            machine_id="0123456789abcdef0123456789abcdef",
            host_key="SHA256:x",
            kernel=self._kernel(),
            boot=self.boot,
            iommu=Iommu(units=self.units, firmware_table=self.firmware_table, groups=self.groups),
            pci=tuple(sorted(self.functions, key=lambda f: f.bdf)),
            disks=(BlockDevice(name="nvme0n1", bdf="0000:03:00.0", uses=("/",)),),
            interfaces=(NetworkInterface(name="eno1", bdf="0000:02:00.0", mac=None, uses=("bridge vmbr0",)),),
            console=Console(has_bmc=True, boot_vga=None, serial=True),
            proxmox=self._proxmox(),
            files={
                GRUB: FileState(path=GRUB, content=self.grub, sha256=None),
                KERNEL_CMDLINE: FileState(path=KERNEL_CMDLINE, content=None, sha256=None),
                IDENTITY: FileState(path=IDENTITY, content=None, sha256=None),
                MODULES: FileState(path=MODULES, content="vfio_pci\n", sha256=None),
                LOCK: FileState(path=LOCK, content=None, sha256=None),
                INTERFACES: FileState(path=INTERFACES, content=INTERFACES_TEXT, sha256=None),
                P2P: FileState(path=P2P, content=proven(), sha256=None),
                QUARANTINE_FILE: FileState(path=QUARANTINE_FILE, content=None, sha256=None),
                **{path: FileState(path=path, content=text, sha256=None) for path, text in self.files.items()},
            },
            folders={folder: tuple(path for path in self.files if path.startswith(f"{folder}/")) for folder in FOLDERS},
        ).model_copy(update=self.changes)

    def _kernel(self) -> Kernel:
        return Kernel(
            release="6.14.8-2-pve",
            running_cmdline=self.cmdline,
            boot_id="b",
            modules=("vfio_pci",),
            cpu_vendor="AuthenticAMD",
            phys_bits=self.phys_bits,
            memory_bytes=1024 * GIB,
            numa_nodes=(0,),
            numa_cpus={0: "0-63", 1: "64-127"},
            interrupt_remapping=True,
            unsafe_interrupts=False,
            vfio_stays_awake=False,
            huge_pages=(),
            services=("ssh.service",),
            boot_framebuffer=None,
        ).model_copy(update=self.kernel)

    def _proxmox(self) -> Proxmox:
        return Proxmox(
            version=self.version,
            node="pve1",
            quorate=True,
            mappings=MappingFile.parse(self.mappings).mappings,
            mapping_file=FileState(path=MAPPING_FILE, content=self.mappings, sha256=None),
            vms=tuple(vm(vmid, text) for vmid, text in self.vms.items()),
            ha_vms=(),
        ).model_copy(update=self.proxmox)


def vm(vmid: int, text: str) -> Vm:
    live = VmConfigFile.parse(text).live
    return Vm(
        vmid=vmid,
        node="pve1",
        name=live.get("name"),
        status="stopped",
        config_text=text,
        config=live,
        hostpci=hostpci_slots(live),
    )


def without_group(source: tuple[PciFunction, ...] | None = None) -> tuple[PciFunction, ...]:
    return tuple(f.model_copy(update={"iommu_group": None}) for f in source or functions())


def changed(bdf: str, **facts) -> tuple[PciFunction, ...]:
    return tuple(f.model_copy(update=facts) if f.bdf == bdf else f for f in functions())


def regrouped(bdf: str, group: int | None) -> tuple[PciFunction, ...]:
    """Move the whole slot of ``bdf``, as a kernel would."""
    slot = bdf.rpartition(".")[0]
    return tuple(f.model_copy(update={"iommu_group": group}) if f.bdf.startswith(slot) else f for f in functions())


OLDER_HOST = HostPart(
    kernel="6.8.12-4-pve",
    qemu=Unknown(unknown="not read"),
    options=("iommu=pt",),
    gpus=Unknown(unknown="not read"),
    cpu="host",
    machine="q35",
    cliques=(),
)
BOTH = SetRecord(
    ids="10de:2bb5", gpus=("GPU-1", "GPU-2"), clique=None, verdict="PROVEN", reason="every value was right"
)
POOL = MAPPINGS.replace("\n\ngpu-1\n", "\n")
CLIQUE = "args: -set device.hostpci0.x-nv-gpudirect-clique=0 -set device.hostpci1.x-nv-gpudirect-clique=0\n"


def tokens(words: str) -> Build:
    """A host whose command line has more words, in force and in its file."""
    return Build(cmdline=f"{CMDLINE} {words}", grub=GRUB_TEXT.replace("iommu=pt", f"iommu=pt {words}"))


IO_SLOTS = "".join(f"hostpci{index}: {0x41 + index:02x}:00.0,pcie=1\n" for index in range(8))

SICK: dict[str, Callable[[], HostModel]] = {
    "p2p-fingerprint-changed": Build(files={P2P: proven("PROVEN", OLDER_HOST, (BOTH,))}).model,
    "gpu-quarantined": Build(files={QUARANTINE_FILE: quarantine_text((IN_QUARANTINE,))}).model,
    "run-unfinished": Build(files={"/var/lib/pvectl/lock": '{"run": "20260102T030405Z-0a1b2c"}'}).model,
    "boot-esp-unequal": Build(boot=BOOT.model_copy(update={"notes": ("ESP AAAA-0002 is skipped",)})).model,
    "cmdline-misspelt": tokens("pci_acs_override=downstream").model,
    "cmdline-contradiction": tokens("iommu=nopt").model,
    "cmdline-risky": tokens("pci=noaer").model,
    "cmdline-wrong-file": Build(files={KERNEL_CMDLINE: "root=ZFS=rpool/ROOT/pve-1 boot=zfs nmi_watchdog=0\n"}).model,
    "cmdline-lost": Build(
        grub=GRUB_TEXT.replace("iommu=pt", "nmi_watchdog=0"),
        files={"/etc/default/grub.d/own.cfg": 'GRUB_CMDLINE_LINUX_DEFAULT="quiet iommu=pt"\n'},
    ).model,
    "modprobe-noop": Build(files={"/etc/modprobe.d/vfio.conf": "options vfio-pci ids=10de:2bb5 diable_vga=1\n"}).model,
    "modprobe-risky": Build(files={"/etc/modprobe.d/vfio.conf": "options vfio-pci ids=8086:1563\n"}).model,
    "iommu-off": Build(units=(), functions=without_group(), mappings="", vms={}).model,
    "cmdline-noop": Build(
        cmdline=f"{CMDLINE} amd_iommu=on", grub=GRUB_TEXT.replace("iommu=pt", "iommu=pt amd_iommu=on")
    ).model,
    "cmdline-not-applied": Build(grub=GRUB_TEXT.replace("iommu=pt", "iommu=pt default_hugepagesz=1G")).model,
    "mapping-stale": Build(functions=regrouped("0000:41:00.0", 27)).model,
    "mapping-incomplete": Build(mappings=MAPPINGS.replace(",subsystem-id=10de:204e", "", 1)).model,
    "group-foreign-device": Build(
        functions=regrouped("0000:02:00.0", 45),
    ).model,
    "cpu-caps-mmio-window": Build(vms={100: VM.replace("cpu: host", "cpu: x86-64-v2-AES")}).model,
    "vm-io-ports-short": Build(
        functions=tuple(
            (card := gpu(f"0000:{bus:02x}:00.0", bus)).model_copy(
                update={"bars": (*card.bars, Bar(index=5, start=0x1000, size=128, is_io=True))}
            )
            for bus in range(0x41, 0x49)
        ),
        mappings="",
        vms={100: "balloon: 0\nbios: ovmf\ncpu: host\nmachine: q35\n" + IO_SLOTS},
    ).model,
    "vm-device-conflict": Build(vms={100: VM, 101: VM.replace("hostpci1: mapping=gpu-1,pcie=1\n", "")}).model,
    "clique-conflict": Build(
        mappings=POOL, vms={100: CLIQUE + VM.replace("gpu-1", "gpu-0").replace("cpu: host", "cpu: host,hidden=1")}
    ).model,
}
