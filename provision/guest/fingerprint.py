"""What a verdict on P2P holds for: one change of these parts, and it has to be shown anew.

No part names a PCI address: a card in another slot is the same card, and a bus number is no property of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping

from provision.evidence import Frozen, Maybe, Unknown
from provision.guest.facts import GuestFacts

PARAMETERS = (
    *("RegistryDwords", "RegistryDwordsPerDevice", "EnableResizableBar", "DmaRemapPeerMmio"),
    *("GrdmaPciTopoCheckOverride", "NvLinkDisable", "EnablePCIERelaxedOrderingMode", "EnableStreamMemOPs"),
    "CoherentGPUMemoryMode",
)
"""Options of the NVIDIA module that change how peers reach each other (/proc/driver/nvidia/params)."""


class HostPart(Frozen):
    """What the host adds.  ``gpus`` are vendor, device and serial number of each card, sorted."""

    kernel: Maybe[str]
    qemu: Maybe[str]
    options: Maybe[tuple[str, ...]]
    """Words of the kernel's command line that change the IOMMU or ACS."""
    gpus: Maybe[tuple[str, ...]]
    cpu: str
    """Option ``cpu`` of the VM, empty where there is none."""
    machine: str
    cliques: tuple[str, ...]
    """``hostpci0=0``, sorted."""


class GuestPart(Frozen):
    """What the guest adds.  ``gpus`` are device, VBIOS and UUID of each card, sorted."""

    kernel: str | None
    driver: Maybe[str]
    module: str
    gpus: tuple[str, ...]
    parameters: tuple[str, ...]
    """``RegistryDwords=...``, sorted."""
    cliques: tuple[str, ...]
    """Clique of each card by its UUID, sorted."""


class Fingerprint(Frozen):
    host: Maybe[HostPart]
    guest: GuestPart

    @property
    def digest(self) -> str:
        """Sixteen hex digits of SHA-256 over every part.  Equal parts give the same digest anywhere."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def guest_part(facts: GuestFacts) -> GuestPart:
    """Return what the guest's answer adds."""
    rows = {} if isinstance(facts.nvml, Unknown) else {gpu.bdf: gpu for gpu in facts.nvml if isinstance(gpu.bdf, str)}
    cards, cliques = [], []
    for gpu in facts.pci:
        row = rows.get(gpu.bdf)
        uuid = _text(row.uuid) if row else "?"
        cards.append(f"{gpu.device.removeprefix('0x')} {_text(row.vbios) if row else '?'} {uuid}")
        if isinstance(gpu.clique, int):
            cliques.append(f"{uuid}={gpu.clique}")
    flavor = {True: "open", False: "closed", None: "unknown"}[facts.module.open]
    return GuestPart(
        kernel=facts.kernel,
        driver=facts.driver,
        module=flavor,
        gpus=tuple(sorted(cards)),
        parameters=tuple(_parameters(facts.module.parameters or {})),
        cliques=tuple(sorted(cliques)),
    )


def _text(value: Maybe[str]) -> str:
    return "?" if isinstance(value, Unknown) else value


def _parameters(given: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(PARAMETERS):
        value = given.get(name, "").strip('"')
        if value:
            yield f"{name}={value}"


def host_changes(old: Maybe[HostPart], new: Maybe[HostPart], *, with_cliques: bool = True) -> tuple[str, ...]:
    """Return each part of the host that is another now, in words.  A part that is not known on one side is no change.

    ``with_cliques``: whether other cliques count too; they do not where the question is what to grant.
    """
    if isinstance(old, Unknown) or isinstance(new, Unknown):
        return ()
    names = [name for name in HostPart.model_fields if with_cliques or name != "cliques"]
    return tuple(_changed(old, new, names))


def guest_changes(old: GuestPart, new: GuestPart, *, with_cliques: bool = True) -> tuple[str, ...]:
    """The same for the guest's part."""
    names = [name for name in GuestPart.model_fields if with_cliques or name != "cliques"]
    return tuple(_changed(old, new, names))


def _changed(old: HostPart | GuestPart, new: HostPart | GuestPart, names: list[str]) -> Iterator[str]:
    for name in names:
        before, now = getattr(old, name), getattr(new, name)
        if before != now and not isinstance(before, Unknown) and not isinstance(now, Unknown):
            yield f"{_TITLES[name]}: {_words(before)} -> {_words(now)}"


_TITLES = {
    "kernel": "kernel",
    "qemu": "QEMU",
    "options": "kernel command line",
    "gpus": "GPUs",
    "cpu": "cpu",
    "machine": "machine",
    "cliques": "cliques",
    "driver": "driver",
    "module": "module",
    "parameters": "options of the NVIDIA module",
}


def _words(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(word) for word in value) or "none"
    return str(value) or "none"
