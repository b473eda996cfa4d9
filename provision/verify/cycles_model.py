"""What a run of stops and starts found, as values."""

from __future__ import annotations

from typing import Literal

from provision.evidence import Frozen
from provision.host.quarantine import Fault, Quarantined
from provision.verify.facts import Judgement

Step = Literal["stop", "start", "boot", "gsp", "reset", "reset_boot", "reset_gsp"]
STEPS: tuple[Step, ...] = ("stop", "start", "boot", "gsp", "reset", "reset_boot", "reset_gsp")
"""In seconds: the guest's shutdown until Proxmox calls the VM stopped; its start task; from there until the guest
answers with a new boot identity; from there until every GPU works; with ``--reset`` the same after a reset."""


class Trouble(Frozen):
    """What ended the cycles of a VM."""

    fault: Fault
    text: str
    evidence: tuple[str, ...] = ()
    """Lines of a kernel log or of a task."""
    suspects: tuple[str, ...] = ()
    """GPUs by their address on the host."""
    sure: bool = True
    """False where nothing tells which of the suspects it is."""
    advice: tuple[str, ...] = ()
    """What to try, the mildest first."""


class Cycle(Frozen):
    number: int
    seconds: dict[Step, float]
    """Steps that came to their end."""
    reset: Judgement | None = None
    """``None``: the cycle did not get that far."""
    gsp: Judgement | None = None
    gpus: Judgement | None = None
    is_done: bool = False
    """Every step was made and every check was judged."""

    @property
    def judgements(self) -> dict[str, Judgement]:
        all_of = {"reset": self.reset, "gsp": self.gsp, "gpus": self.gpus}
        return {name: one for name, one in all_of.items() if one is not None}


class VmCycles(Frozen):
    vmid: int
    wanted: int
    gpus: int
    """How many it is given."""
    by_ha: bool
    before: Literal["running", "stopped"]
    cycles: tuple[Cycle, ...] = ()
    trouble: Trouble | None = None
    state: str = ""
    """One sentence: in which state the VM is left."""
    notes: tuple[str, ...] = ()

    @property
    def done(self) -> int:
        """Cycles that came to their end."""
        return sum(cycle.is_done for cycle in self.cycles)


class CyclesReport(Frozen):
    host: str
    reset: bool
    vms: tuple[VmCycles, ...]
    quarantined: tuple[Quarantined, ...] = ()
    """New ones."""
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """130 interrupted, 1 pvectl itself could not go on, 7 a cycle failed, 8 a check could not look, else 0."""
        if self.interrupted:
            return 130
        faults = [vm.trouble.fault for vm in self.vms if vm.trouble is not None]
        if faults:
            return 1 if "error" in faults else 7
        states = {one.state for vm in self.vms for cycle in vm.cycles for one in cycle.judgements.values()}
        if "fail" in states:
            return 7
        return 8 if "undecided" in states or not states else 0
