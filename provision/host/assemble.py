"""From a capture to the host model."""

from __future__ import annotations

from provision.capture.model import Capture
from provision.evidence import Maybe, Unknown
from provision.host.boot import read_boot
from provision.host.console import read_console
from provision.host.disks import read_disks
from provision.host.facts import Facts
from provision.host.files import read_files, read_folders
from provision.host.input_devices import read_keyboards
from provision.host.iommu import read_iommu
from provision.host.kernel import read_kernel, required
from provision.host.model import HostModel
from provision.host.network import read_interfaces
from provision.host.pci import read_functions
from provision.host.proxmox import read_proxmox


def assemble(capture: Capture) -> HostModel:
    """Return what ``capture`` says about its host.  Any capture gives a model: what is missing is Unknown."""
    facts = Facts(capture)
    functions = read_functions(facts)
    kernel = read_kernel(facts)
    proxmox = read_proxmox(facts)
    return HostModel(
        hostname=required(facts.word("/proc/sys/kernel/hostname"), "/proc/sys/kernel/hostname"),
        machine_id=required(facts.word("/etc/machine-id"), "/etc/machine-id"),
        host_key=_host_key(capture),
        kernel=kernel,
        boot=read_boot(facts),
        iommu=read_iommu(facts, functions),
        pci=functions,
        disks=read_disks(facts, proxmox),
        interfaces=read_interfaces(facts),
        console=read_console(functions, kernel.running_cmdline, read_keyboards(facts)),
        proxmox=proxmox,
        files=read_files(facts),
        folders=read_folders(facts),
    )


def _host_key(capture: Capture) -> Maybe[str]:
    return capture.manifest.host_key or Unknown(unknown="the host was not read over SSH")
