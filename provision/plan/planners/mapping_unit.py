"""A unit on the host that repairs mapping entries at boot, before any guest starts.

Drop-ins of pve-guests and pve-ha-lrm want it, so that it needs no ``systemctl enable``: files alone, which a
rollback removes.  It takes effect at the next boot, and nothing has to be restarted for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from provision.evidence import Unknown
from provision.plan.context import Context, Notes, Outcome
from provision.plan.digests import text_digest
from provision.plan.model import Change, FileWrite
from provision.plan.planners.file_change import file_change, present_text
from provision.pve.mapping_unit_source import PROGRAM
from provision.pve.property_string import PropertyStringError, parse
from provision.pve.vm_config import HOSTPCI

PROGRAM_FILE = "/var/lib/pvectl/mapping_unit.py"
UNIT_FILE = "/etc/systemd/system/pvectl-mapping.service"
DROP_INS = tuple(f"/etc/systemd/system/{unit}.service.d/pvectl-mapping.conf" for unit in ("pve-guests", "pve-ha-lrm"))
FILES = (PROGRAM_FILE, UNIT_FILE, *DROP_INS)


def plan_mapping_unit(context: Context) -> Outcome:
    """Return the unit's files as ``policies.mapping_unit`` says; ``off`` removes what is there."""
    notes = Notes()
    wanted = _contents(context)
    for path, content in wanted.items():
        if content is None and not _is_there(context, path):
            continue
        if present_text(context, path) != content:
            notes.changes.append(_change(context, path, content))
    if context.policies.mapping_unit == "repair":
        if not notes.changes:
            notes.keep("mapping unit", "its files are there; it runs at every boot")
        notes.warnings.extend(_raw_slots(context))
    return notes.outcome()


def _contents(context: Context) -> dict[str, str | None]:
    if context.policies.mapping_unit == "off":
        return dict.fromkeys(reversed(FILES))
    unit = context.render(
        "host/pvectl-mapping.service.j2", {"program": PROGRAM_FILE, "raw": context.policies.raw_devices}
    )
    drop_in = context.render("host/pvectl-mapping-wants.conf.j2", {})
    return {PROGRAM_FILE: PROGRAM, UNIT_FILE: unit, **dict.fromkeys(DROP_INS, drop_in)}


def _is_there(context: Context, path: str) -> bool:
    """Whether the file is known to be there: a capture that did not look for it has nothing to remove."""
    state = context.model.files.get(path)
    return state is not None and not isinstance(state.content, Unknown) and state.content is not None


def _change(context: Context, path: str, content: str | None) -> Change:
    name = path.rpartition("/")[2] if path not in DROP_INS else path.split("/")[4].removesuffix(".d")
    titles = {
        PROGRAM_FILE: "Install the program that repairs mappings at boot",
        UNIT_FILE: "Run it at boot, after pve-cluster and before any guest",
    }
    change = file_change(
        context,
        id=f"mapping-unit.{name}",
        path=path,
        content=content,
        title=f"Remove {path}" if content is None else titles.get(path, f"Let {name} wait for it"),
        reason="policies.mapping_unit is off"
        if content is None
        else "policies.mapping_unit is repair: a card or a firmware update that renumbers IOMMU groups or buses "
        "must not keep guests from starting; it takes effect at the next boot",
    )
    return change if path != PROGRAM_FILE else change.model_copy(update={"diff": _short_diff(change)})


def _short_diff(change: Change) -> str:
    """Name the program instead of showing all of it: its text is this package's own file."""
    if not isinstance(change.operation, FileWrite):
        return f"--- {PROGRAM_FILE}"
    lines = change.operation.content.count("\n")
    return f"+++ {PROGRAM_FILE}: {lines} lines, SHA-256 {text_digest(change.operation.content)[:16]}..."


def _raw_slots(context: Context) -> Iterator[str]:
    """Say which VMs pass devices by raw address: the unit cannot repair those."""
    vms = context.model.proxmox.vms
    for vm in () if isinstance(vms, Unknown) else vms:
        raw = [key for key, value in vm.config.items() if HOSTPCI.fullmatch(key) and _is_raw(value)]
        if vm.node == context.node and raw:
            yield (
                f"VM {vm.vmid} passes {', '.join(sorted(raw))} by raw address, which no repair follows: give it a "
                f"mapping (list the VM in the inventory, and the plan moves its GPUs to mappings)"
            )


def _is_raw(value: str) -> bool:
    try:
        return "host" in parse(value, "host")
    except PropertyStringError:
        return False
