"""The inventory that ``pvectl init`` writes: what was found, with comments, nothing changed yet."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from provision.envelope import KINDS
from provision.evidence import Unknown
from provision.host.model import HostModel, Vm
from provision.inventory.models import SshOptions
from provision.inventory.select import describe_gpu

_PLAIN = re.compile(r"[A-Za-z0-9_./@\[][A-Za-z0-9_./@:\[\]-]*")
_WORDS = {"null", "true", "false", "~"}


def starter(model: HostModel, target: str, *, ssh: SshOptions | None = None) -> str:
    """Return an inventory, as YAML with comments, for the host that was read at ``target``.

    ``ssh`` is how it was reached, where that was more than the address.  VMs that have GPUs now are
    wished as they are; where there is none, an example stands in comments.
    """
    lines = [
        f"# What pvectl should see to on {_host_name(model, target)}. Every key: pvectl schema inventory",
        f"schema: pvectl.inventory/{KINDS['inventory']}",
        "",
        "hosts:",
        f"  {_scalar(_host_name(model, target))}:",
        f"    address: {_scalar(target)}",
        *_ssh_lines(ssh or SshOptions()),
        "    # api: {auth: token, user: user@realm, token_name: NAME, secret: {env: PVE_TOKEN}}",
        "    #   without it, pvectl uses pvesh over the same connection",
        "",
        *_gpu_comments(model),
        *_vm_lines(model),
        "",
        *_POLICIES,
    ]
    return "\n".join(lines) + "\n"


_POLICIES = (
    "policies:",
    "  iommu: keep        # pt: identity domain for the host's own devices",
    "  binding: per-device  # none: leave the binding to Proxmox at VM start",
    "  console: keep      # serial, bmc, headless: accept the loss of the only display",
    "  guests: ask        # stop: running guests may be shut down for a change",
    "  p2p: off           # prove: grant peer-to-peer and prove it, or take it back",
)


def _host_name(model: HostModel, target: str) -> str:
    for name in (model.proxmox.node, model.hostname):
        if isinstance(name, str) and name:
            return name
    return target.rpartition("@")[2].partition(":")[0] or target


def _scalar(text: str) -> str:
    """Return ``text`` as a YAML scalar that reads back as the same text."""
    is_number = re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text) is not None
    if _PLAIN.fullmatch(text) and not text.startswith("[") and text.casefold() not in _WORDS and not is_number:
        return text if not text.endswith(":") else json.dumps(text)
    return json.dumps(text, ensure_ascii=False)


def _ssh_lines(ssh: SshOptions) -> list[str]:
    given = ssh.model_dump(exclude_defaults=True)
    if not given:
        return []
    return ["    ssh:", *(f"      {key}: {_value(value)}" for key, value in given.items())]


def _value(value: str | float) -> str:
    return _scalar(value) if isinstance(value, str) else json.dumps(value)


def _gpu_comments(model: HostModel) -> Iterable[str]:
    gpus = model.gpus()
    if not gpus:
        return ["    # No NVIDIA GPU was found on this host."]
    return [f"    # GPUs found: {len(gpus)}", *(f"    #   {describe_gpu(gpu)}" for gpu in gpus)]


def _vm_lines(model: HostModel) -> list[str]:
    vms = model.proxmox.vms
    if isinstance(vms, Unknown):
        return [f"    # VMs could not be read: {_comment(vms.unknown)}", *_EXAMPLE]
    with_gpus = [(vm, gpus) for vm in vms if (gpus := _gpus_of(vm, model))]
    if not with_gpus:
        return ["    # No VM has a GPU now.", *_EXAMPLE]
    lines = ["    vms:"]
    for vm, gpus in with_gpus:
        lines += _vm(vm, gpus, model)
    return lines


_EXAMPLE = (
    "    # vms:",
    "    #   100:",
    "    #     gpus: all           # or a list of addresses, or {model: ..., numa: 0, count: 4}",
)


def _vm(vm: Vm, gpus: tuple[str, ...], model: HostModel) -> list[str]:
    name = f"  # {_comment(vm.name)}" if isinstance(vm.name, str) else ""
    lines = [f"      {vm.vmid}:{name}"]
    if set(gpus) == {gpu.bdf for gpu in model.gpus()}:
        lines.append("        gpus: all")
    else:
        lines += ["        gpus:", *(f"          - {bdf}" for bdf in gpus)]
    lines.append("        # guest: {address: ADDRESS, user: root}   # lets pvectl verify prove it in the guest")
    return lines


def _comment(text: str) -> str:
    return " ".join(text.split())


def _gpus_of(vm: Vm, model: HostModel) -> tuple[str, ...]:
    """Return the GPUs that the VM's slots name, by address or mapping, in BDF order.

    A pool gives a slot its first free entry: as many entries count as slots use the pool.
    """
    there = {gpu.bdf for gpu in model.gpus()}
    found: list[str] = []
    for slot in vm.hostpci:
        candidates = _paths(slot.host) if slot.host else _mapped(slot.mapping, vm.node, model)
        taken = [bdf for bdf in candidates if bdf in there and bdf not in found]
        found += taken[:1] if slot.mapping else taken
    return tuple(sorted(found))


def _paths(text: str) -> list[str]:
    paths = [part if part.count(":") == 2 else f"0000:{part}" for part in text.split(";")]
    return [path if "." in path else f"{path}.0" for path in paths]


def _mapped(mapping: str | None, node: str, model: HostModel) -> list[str]:
    mappings = model.proxmox.mappings
    if isinstance(mappings, Unknown):
        return []
    entries = [entry for m in mappings if m.id == mapping for entry in m.entries if entry.node == node]
    return [path for entry in entries for path in _paths(entry.path)]
