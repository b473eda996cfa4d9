"""A VM names a device by an address at which another device sits now."""

from __future__ import annotations

import json

from pydantic import TypeAdapter

from provision.doctor import cite
from provision.doctor.fabric import (
    title,
)
from provision.doctor.finding import Evidence, Finding, Undecidable
from provision.doctor.guests import Guest, guests
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found
from provision.envelope import unwrap
from provision.errors import PvectlError
from provision.evidence import Maybe, Unknown
from provision.host.boot_files import text_of
from provision.host.model import HostModel, HostPci
from provision.pci.model import Identity, PciFunction
from provision.pve.conflicts import raw_paths

ID = "bdf-moved"
SOURCE = "qemu-server, src/PVE/QemuServer/PCI.pm, parse_hostpci"
_DEVICES: TypeAdapter[dict[str, Identity]] = TypeAdapter(dict[str, Identity])
FILE = "/var/lib/pvectl/identity.json"


def check(model: HostModel) -> Outcome:
    recorded = _recorded(model)
    for guest in guests(ID, model):
        if isinstance(guest, Undecidable):
            yield guest
            continue
        raw = [slot for slot in guest.vm.hostpci if slot.mapping is None]
        if raw and isinstance(recorded, Unknown):
            yield undecided(ID, recorded, FILE)
        elif raw and isinstance(recorded, dict):
            yield from _check(guest, raw, recorded)


def _recorded(model: HostModel) -> Maybe[dict[str, Identity]]:
    """Return who was where when pvectl wrote it down; nobody where it never did."""
    text = text_of(model, FILE)
    if isinstance(text, Unknown):
        return text
    if text is None:
        return {}
    try:
        return _DEVICES.validate_python(unwrap(json.loads(text), "identity", source=FILE)["devices"])
    except (ValueError, KeyError, TypeError, PvectlError) as error:
        return Unknown(unknown=f"{FILE} is damaged ({error.__class__.__name__})", supply="pvectl mapping adopt")


def _check(guest: Guest, raw: list[HostPci], recorded: dict[str, Identity]) -> Outcome:
    functions = {f.bdf: f for f in guest.model.pci}
    for slot in raw:
        for bdf in sorted(path if "." in path else f"{path}.0" for path in raw_paths(slot)):
            before, now = recorded.get(bdf), functions.get(bdf)
            if before is None or not functions:
                continue
            dsn = _serial(now)
            if now is None or now.ids != before.ids or (isinstance(dsn, str) and before.dsn and dsn != before.dsn):
                yield _finding(guest, slot, bdf, before, now)
            elif isinstance(dsn, Unknown) and before.dsn:
                yield undecided(ID, dsn, f"serial number of {bdf}")


def _serial(function: PciFunction | None) -> Maybe[str | None]:
    if function is None:
        return None
    return function.config if isinstance(function.config, Unknown) else function.config.dsn


def _finding(guest: Guest, slot: HostPci, bdf: str, before: Identity, now: PciFunction | None) -> Finding:
    is_now = title(now) if now else "nothing"
    return found(
        ID,
        "error",
        (guest.subject, bdf),
        f"{guest.name}: at {bdf} there is {is_now}, and it was {before.ids} when it was recorded",
        (
            guest.cite(f"hostpci{slot.index}"),
            Evidence(source=FILE, excerpt=f"{bdf}: {before.short()} ({before.ids})"),
            cite.hardware(bdf, now.ids if now else "not there"),
        ),
        "Proxmox does not check raw addresses: the VM would get that other device, and the host would lose it",
        "do not start the VM; pvectl plan finds the device by its identity and names it through a mapping",
        source=SOURCE,
        plan_fixes=True,
    )


RULE = Rule(ID, "A VM names an address at which another device sits now", check)
