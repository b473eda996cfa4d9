"""Text of pci.cfg that Proxmox itself drops when it writes the file: never lost without the user's word."""

from __future__ import annotations

from provision.errors import ConsentNeeded, Refused
from provision.host.model import HostModel
from provision.plan.model import MappingDelete, MappingPut, Plan
from provision.pve.mapping import MAPPING_FILE, MappingFile


def refuse_lost_text(plan: Plan, model: HostModel, *, accept: bool) -> None:
    """Raise ConsentNeeded where the plan writes a mapping and the file holds text that would be lost.

    Raises Refused where Proxmox would refuse the write itself: a section without a usable entry makes every
    write of any mapping fail.
    """
    text = model.proxmox.mapping_file.content
    if not isinstance(text, str) or not any(isinstance(c.operation, (MappingPut, MappingDelete)) for c in plan.changes):
        return
    file = MappingFile.parse(text)
    if file.unlisted:
        names = ", ".join(mapping.id for mapping in file.unlisted)
        raise Refused(
            f"Unable to plan for {plan.host}: {names} in {MAPPING_FILE} has no entry that Proxmox can read, "
            "and while it stands there Proxmox refuses every write of a mapping",
            f"correct or remove the section {names} in that file, then plan again",
        )
    if file.lost and not accept:
        lines = "".join(f"\n  line {line.number}: {line.text.strip()} ({line.reason})" for line in file.lost)
        raise ConsentNeeded(
            f"Unable to plan for {plan.host}: Proxmox would drop text from {MAPPING_FILE} at the next write{lines}",
            "copy what you need, then plan with --accept-lost-text",
        )
