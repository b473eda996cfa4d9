"""Evidence with file and line, taken from the very text that was read."""

from __future__ import annotations

from provision.boot.cmdline import Token
from provision.doctor.finding import Evidence
from provision.evidence import Maybe, known
from provision.host.model import HostModel, Vm
from provision.pve.mapping import MAPPING_FILE
from provision.pve.vm_config import VmConfigFile
from provision.readers.document import Document
from provision.readers.lines import excerpt

RUNNING = "/proc/cmdline"


def running(token: Token) -> Evidence:
    """Cite one parameter of the running kernel."""
    return Evidence(source=RUNNING, excerpt=token.raw, line=1)


def config_path(vm: Vm) -> str:
    return f"/etc/pve/nodes/{vm.node}/qemu-server/{vm.vmid}.conf"


def vm_option(vm: Vm, key: str) -> Evidence:
    """Cite an option of a VM's live section; without a line where it is not set there."""
    value = vm.config.get(key)
    if value is None:
        return Evidence(source=config_path(vm), excerpt=f"{key} is not set")
    return Evidence(source=config_path(vm), excerpt=f"{key}: {value}", line=_option_line(vm.config_text, key))


def _option_line(text: Maybe[str], key: str) -> int | None:
    """Return the line of the live option that counts: the last, where it stands twice."""
    lines = enumerate(VmConfigFile.parse(known(text, "")).sections[0].lines, start=1)
    return max((number for number, line in lines if line.kind == "option" and line.key == key), default=None)


def mapping_line(model: HostModel, mapping: str, raw: str) -> Evidence:
    """Cite the ``map`` line ``raw`` of a mapping's section."""
    line = _map_line(model.proxmox.mapping_file.content, mapping, raw)
    return Evidence(source=MAPPING_FILE, excerpt=f"map {raw}", line=line)


def _map_line(text: Maybe[str | None], mapping: str, raw: str) -> int | None:
    section = ""
    for number, line in enumerate(text.split("\n") if isinstance(text, str) else (), start=1):
        if line and not line[0].isspace() and not line.startswith("#"):
            section = line.strip()
        elif section == mapping and line.rstrip().split(None, 1) == ["map", raw]:
            return number
    return None


def hardware(path: str, excerpt: str) -> Evidence:
    """Cite what sysfs shows of a PCI function (``path`` below its folder, or empty)."""
    return Evidence(source=f"/sys/bus/pci/devices/{path}", excerpt=excerpt)


def quoted(document: Document, line: int, text: str) -> Evidence:
    """Cite a line of a text that was given; ``line`` counts as in the document's reading."""
    return Evidence(source=document.name, excerpt=excerpt(text, 160), line=document.line(line))
