"""No boot set-up of a rescue system: what is planned must be of the system that is on the disk."""

from __future__ import annotations

from provision.errors import Refused
from provision.host.model import HostModel
from provision.plan.model import FileRemove, FileWrite, Plan


def refuse_rescue(plan: Plan, model: HostModel) -> None:
    """Raise Refused where the plan writes files of a system that is not the installed one."""
    if model.boot.is_installed is not False:
        return
    paths = [c.operation.path for c in plan.changes if isinstance(c.operation, (FileWrite, FileRemove))]
    if paths:
        raise Refused(
            f"Unable to plan for {plan.host}: the running system is not the one on the disk "
            f"({'; '.join(model.boot.evidence)}), and {', '.join(paths)} would be written there",
            "boot the installed system, then plan again",
        )
