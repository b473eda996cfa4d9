"""The QEMU command line that ``qm showcmd`` prints, as far as passthrough is concerned."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress

from provision.lab.proxmox import formats
from provision.lab.proxmox.devices import Log, Slot, choose, slots
from provision.lab.proxmox.node import Node
from provision.lab.proxmox.vm_checks import check_machine, check_memory, command_warnings, memory_mib
from provision.lab.proxmox.vm_store import VmStore

_PLAIN = re.compile(r"[\w@%+:,./-]+", re.ASCII)


def showcmd(node: Node, vmid: int, log: Log) -> list[str]:
    """Return the arguments.  Raises CallFailed where Proxmox refuses; devices of other VMs are not seen."""
    store = node.vm(vmid)
    for warning in store.warnings:
        log(warning)
    command_warnings(store, log)
    chosen = choose(slots(node, store.live, log), set())
    check_machine(node, store.live)
    check_memory(node, store.live)
    return _arguments(store, chosen)


def _arguments(store: VmStore, chosen: list[Slot]) -> list[str]:
    config, vmid = store.live, store.vmid
    run = f"/var/run/qemu-server/{vmid}"
    cores, sockets = int(config.get("cores", "1")), int(config.get("sockets", "1"))
    name = config.get("name", f"vm{vmid}")
    words = ["/usr/bin/kvm", "-id", str(vmid), "-name", f"{name},debug-threads=on", "-no-shutdown"]
    words += ["-chardev", f"socket,id=qmp,path={run}.qmp,server=on,wait=off", "-mon", "chardev=qmp,mode=control"]
    words += ["-chardev", "socket,id=qmp-event,path=/var/run/qmeventd.sock,reconnect-ms=5000"]
    words += ["-mon", "chardev=qmp-event,mode=control", "-pidfile", f"{run}.pid", "-daemonize"]
    if "smbios1" in config:
        words += ["-smbios", f"type=1,{config['smbios1']}"]
    total = cores * sockets
    words += ["-smp", f"{total},sockets={sockets},cores={cores},maxcpus={total}", "-nodefaults", "-cpu", _cpu(config)]
    words += ["-m", str(memory_mib(config)), "-readconfig", "/usr/share/qemu-server/pve-q35-4.0.cfg"]
    for slot in chosen:
        words += _device(slot)
    if config.get("balloon") != "0":
        words += ["-device", "virtio-balloon-pci,id=balloon0,bus=pci.0,addr=0x3,free-page-reporting=on"]
    kind = formats.split(config.get("machine", "pc"), "type").get("type", "pc")
    words += ["-machine", f"type={kind if '+pve' in kind else kind + '+pve0'}"]
    with suppress(ValueError):  # Proxmox drops args with an unbalanced quote without a word
        words += shlex.split(config.get("args", ""))
    return words


def _cpu(config: dict[str, str]) -> str:
    cpu = formats.split(config.get("cpu", "kvm64"), "cputype")
    flags = [flag for flag in cpu.get("flags", "").split(";") if flag]
    bits = cpu.get("phys-bits")
    if bits is not None:
        flags.append("host-phys-bits=true" if bits == "host" else f"phys-bits={bits}")
    if "guest-phys-bits" in cpu:
        flags.append(f"guest-phys-bits={cpu['guest-phys-bits']}")
    return ",".join([cpu.get("cputype", "kvm64"), *flags, "+kvm_pv_eoi", "+kvm_pv_unhalt"])


def _device(slot: Slot) -> list[str]:
    bus, address = _place(slot)
    words: list[str] = []
    if slot.pcie and slot.index > 3:
        port = slot.index + 1
        number = 0x10 + (slot.index - 4) // 8
        where = f"addr={number:x}.{(slot.index - 4) % 8},x-speed=16,x-width=32,multifunction=on,bus=pcie.0"
        words += ["-device", f"pcie-root-port,id=ich9-pcie-port-{port},{where},port={port},chassis={port}"]
    many = len(slot.chosen) > 1
    for number, bdf in enumerate(slot.chosen):
        ident = f"hostpci{slot.index}.{number}" if many else f"hostpci{slot.index}"
        text = f"vfio-pci,host={bdf}{',enable-migration=on' if slot.migratable else ''},id={ident},bus={bus}"
        text += f",addr={address}{f'.{number}' if many else ''}"
        if formats.BOOLEANS.get(slot.options.get("rombar", "1")) == "0":
            text += ",rombar=0"
        words += ["-device", text + (",multifunction=on" if many and number == 0 else "")]
    return words


def _place(slot: Slot) -> tuple[str, str]:
    if slot.pcie:
        return f"ich9-pcie-port-{slot.index + 1}", "0x0"
    legacy = ("0x10", "0x11", "0x1b", "0x1c")
    return ("pci.0", legacy[slot.index]) if slot.index < 4 else ("pci.2", f"0x{slot.index - 3:x}")


def quoted(words: list[str], *, pretty: bool) -> str:
    """Return the command as text the way ``qm showcmd`` quotes it."""
    parts = [word if _PLAIN.fullmatch(word) else "'" + word.replace("'", "'\\''") + "'" for word in words]
    if not pretty:
        return " ".join(parts) + "\n"
    lines: list[str] = []
    for part in parts:
        if part.startswith("-") and len(part) > 1:
            lines.append(f"  {part}")
        elif lines:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return " \\\n".join(lines) + "\n"
