"""What of a VM's options is pending: shown as such, and counted where a step meets it."""

from __future__ import annotations

from provision.errors import Refused
from provision.evidence import Unknown
from provision.plan.planners.vm_draft import Draft


def pending_of(draft: Draft) -> dict[str, str | None]:
    """Return what waits for a cold start of the VM; ``None``: the option goes."""
    vm = draft.target.vm
    values = {} if isinstance(vm.pending, Unknown) else vm.pending
    return {**values, **dict.fromkeys(vm.pending_delete)}


def say_pending(draft: Draft) -> None:
    waiting = pending_of(draft)
    if waiting:
        texts = (f"{key} (to be {'removed' if value is None else value})" for key, value in sorted(waiting.items()))
        draft.warn(f"{', '.join(texts)} wait for its next cold start, made by someone else")


def before_of(draft: Draft) -> dict[str, str | None]:
    """Return the present values of what changes, as the step meets them: pending ones are live once it is shut down."""
    return {**draft.before, **{key: value for key, value in pending_of(draft).items() if key in draft.changed}}


def refuse_left_over(draft: Draft) -> None:
    """Raise Refused where a stopped VM has pending values among what changes: a refused write left them there."""
    left = sorted(set(pending_of(draft)) & set(draft.changed))
    if left and draft.target.vm.status == "stopped":
        raise Refused(
            f"Unable to plan {draft.subject} on {draft.context.name}: {', '.join(left)} pending although it is "
            "stopped, as a write leaves it that was refused half-way",
            f"look with: qm pending {draft.vmid}; drop them with: qm set {draft.vmid} --revert {','.join(left)}",
        )
