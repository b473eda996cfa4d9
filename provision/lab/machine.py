"""A lab machine: what hardware it has, how it boots, what Proxmox knows on it, what its guests answer.

Values only.  :func:`load_machine` reads one from ``machines/`` or from a file of the user's own.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from provision.errors import UsageError
from provision.evidence import Frozen
from provision.lab.fabric import Function, HostBridge, is_gpu
from provision.lab.parts import read_plain
from provision.lab.values import Size

MACHINES = Path(__file__).parent / "machines"

PACKAGES = {
    "pve-manager": "9.0.11",
    "qemu-server": "9.0.23",
    "pve-qemu-kvm": "10.0.2-4",
    "libpve-guest-common-perl": "6.0.2",
    "libpve-common-perl": "9.0.11",
    "pve-cluster": "9.0.6",
    "pve-edk2-firmware": "4.2025.02-4",
    "pve-firmware": "3.17-2",
    "proxmox-kernel-helper": "9.0.4",
    "proxmox-default-kernel": "2.0.0",
    "grub-efi-amd64": "2.12-9+pmx2",
    "lvm2": "2.03.31-2+pmx1",
    "zfsutils-linux": "2.3.4-pve1",
}
"""What the installer brings; a machine file that gives packages gives them all."""


class Cpu(Frozen):
    vendor: Literal["AuthenticAMD", "GenuineIntel"]
    model_name: str
    family: int
    model: int
    stepping: int
    sockets: int = Field(default=1, ge=1)
    cores: int = Field(ge=1)
    threads: int = Field(default=2, ge=1, le=2)
    phys_bits: int = Field(ge=36, le=52)
    mhz: int = 3000
    extra_flags: str = ""

    @property
    def count(self) -> int:
        """Logical processors of the machine."""
        return self.sockets * self.cores * self.threads


class NumaNode(Frozen):
    cpus: str
    """CPU list as the kernel prints it, ``0-31,64-95``."""
    memory: Size


class Firmware(Frozen):
    mode: Literal["efi", "bios"] = "efi"
    secure_boot: bool = False
    iommu_table: Literal["IVRS", "DMAR"] | None
    bmc: bool = False
    serial: bool = False
    """A serial port that answers, and a getty on it."""
    board_vendor: str = ""
    board: str = ""
    bios_version: str = ""


class Disk(Frozen):
    name: str
    function: str
    """``id`` of its controller."""
    size: Size
    model: str = ""
    serial: str = ""
    system: bool = False
    """The installer's disk: ESP, and the volume group or pool that holds ``/``."""
    data: str | None = None
    """Anything else that lives on it, ``zfs:tank`` or ``lvm:data``."""


class Interface(Frozen):
    name: str
    function: str
    mac: str = Field(pattern=r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$")
    bridge: str | None = None
    """Bridge that it is a port of, ``vmbr0``."""
    up: bool = True


class Network(Frozen):
    bridge: str = "vmbr0"
    address: str = "192.0.2.10/24"
    gateway: str = "192.0.2.1"


class Boot(Frozen):
    loader: Literal["grub", "systemd-boot"] = "grub"
    storage: Literal["lvm", "zfs", "ext4"] = "lvm"
    """What ``/`` lies on; ``ext4``: on a partition as it is, as Debian's installer makes it."""
    cmdline: str = "quiet"
    """Options of the user's own: GRUB_CMDLINE_LINUX_DEFAULT, or what follows ``root=`` in /etc/kernel/cmdline."""
    esp_uuid: str = "7C1A-53E2"
    root_uuid: str = "3a1d6c0e-5b7f-4c1d-9c55-6e0d2f4b8a10"


class Versions(Frozen):
    """Versions of Proxmox packages on the host."""

    kernel: str = "6.14.11-4-pve"
    older_kernels: tuple[str, ...] = ("6.14.8-2-pve",)
    packages: dict[str, str] = PACKAGES

    @property
    def manager(self) -> str:
        """Version of pve-manager, which Proxmox calls its own."""
        return self.packages["pve-manager"]


class Pool(Frozen):
    """A PCI resource mapping with one entry for each GPU of a kind."""

    kind: str
    group_shift: int = 0
    """Added to every right IOMMU group number: what an update of the firmware leaves behind."""
    description: str | None = None


class VmSetup(Frozen):
    config: dict[str, str]
    """Keys of the VM's file but ``hostpciN``; Proxmox writes them sorted."""
    pool: str | None = None
    """Mapping that each ``hostpciN`` takes a GPU from."""
    devices: tuple[str, ...] = ()
    """Instead of a pool: ids of functions that are given by address."""
    options: str = "pcie=1"
    running: bool = False


P2pBehavior = Literal["not-supported", "chipset-not-supported", "ok", "wrong-data", "mirror", "range", "hang", "crash"]
"""What peers do: refused by the driver, or granted and then right or wrong."""


class GuestDriver(Frozen):
    version: str
    flavor: Literal["open", "proprietary", "none"] = "open"
    cuda: str = "13.1"
    gsp: bool = True


class Guest(Frozen):
    """What is inside a VM, for the probe that runs there."""

    hostname: str
    os: str = "Ubuntu 24.04.3 LTS"
    kernel: str = "6.8.0-88-generic"
    driver: GuestDriver
    p2p: P2pBehavior = "not-supported"
    """What the driver answers to a peer without a clique."""
    p2p_with_clique: P2pBehavior = "ok"
    hypervisor_hidden: bool = False
    gpu_uuids: tuple[str, ...] = ()
    nccl: str = "2.28.9"


class Machine(Frozen):
    name: str
    summary: str = ""
    node: str = Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
    machine_id: str = Field(pattern=r"^[0-9a-f]{32}$")
    cpu: Cpu
    memory: Size
    numa: tuple[NumaNode, ...] = Field(min_length=1)
    firmware: Firmware
    bridges: tuple[HostBridge, ...] = Field(min_length=1)
    disks: tuple[Disk, ...]
    interfaces: tuple[Interface, ...]
    network: Network = Network()
    boot: Boot = Boot()
    versions: Versions = Versions()
    pools: dict[str, Pool] = {}
    vms: dict[int, VmSetup] = {}
    guests: dict[int, Guest] = {}
    files: dict[str, str] = {}
    """Further files by absolute path."""

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """Every PCI function, in the order of a bus scan."""
        return tuple(function for bridge in self.bridges for function in bridge.walk())

    @property
    def gpus(self) -> tuple[Function, ...]:
        return tuple(function for function in self.functions if is_gpu(function))

    def find(self, function_id: str) -> Function | None:
        """Return the function that calls itself ``function_id``."""
        return next((function for function in self.functions if function.id == function_id), None)


def machine_names() -> tuple[str, ...]:
    """Return the names of the machines that are shipped."""
    return tuple(sorted(path.stem for path in MACHINES.glob("*.yaml")))


def load_machine(name: str | Path) -> Machine:
    """Load a shipped machine by name, or a file of the user's own by path.

    Raises :class:`UsageError` where there is no such machine, the file is not one, or the machine is impossible.
    """
    from provision.lab.machine_check import problems  # noqa: PLC0415 (the check needs the layout, which needs this)

    machine = _parse(_find(name))
    found = problems(machine)
    if found:
        lines = "\n".join(f"  {problem}" for problem in found)
        raise UsageError(
            f"Unable to build lab machine {machine.name}: it is impossible:\n{lines}", "correct the machine file"
        )
    return machine


def _find(name: str | Path) -> Path:
    shipped = MACHINES / f"{name}.yaml"
    if shipped.is_file():
        return shipped
    path = Path(name)
    if path.is_file():
        return path
    raise UsageError(
        f"Unable to find lab machine {name}: there is none of that name and no such file",
        f"take one of {', '.join(machine_names())}, or give the path of a machine file",
    )


def _parse(path: Path) -> Machine:
    import yaml  # noqa: PLC0415 (only its error class is needed here)

    try:
        raw = read_plain(path.read_text(encoding="utf-8"))
        return Machine.model_validate({"name": path.stem, **raw})
    except ValidationError as error:
        lines = "\n".join(f"  {'.'.join(str(x) for x in e['loc'])}: {e['msg']}" for e in error.errors())
        raise UsageError(f"Unable to read lab machine {path}:\n{lines}", "correct the machine file") from error
    except (yaml.YAMLError, TypeError, UnicodeDecodeError) as error:
        raise UsageError(f"Unable to read lab machine {path}: {error}", "correct the machine file") from error
