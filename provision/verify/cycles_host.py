"""What the host says during cycles: its kernel log since a moment, and which functions a VM holds."""

from __future__ import annotations

import re
from dataclasses import dataclass

from provision.doctor.log.sighting import Sighting, sightings
from provision.doctor.slots import slots
from provision.evidence import Maybe, Unknown
from provision.host.model import HostModel, Vm
from provision.host.quarantine import Fault
from provision.readers import kernel_log
from provision.remote.session import Session, Want
from provision.verify.facts import Judgement, failed, passed, undecided

RESERVATIONS = "/run/qemu-server/pci-id-reservations"
FAULTS: dict[str, Fault] = {
    "flr-timeout": "reset",
    "vfio-probe-failed": "reset",
    "aer-recovery-failed": "reset",
    "power-state": "power",
}
"""Signatures of a card that did not come back, by what failed."""
_TIME = re.compile(r"^\[\s*(\d{1,10}\.\d{1,9})\]")
_AGAIN = "run it as root, or look by hand: journalctl -k -b"


@dataclass(frozen=True)
class Mark:
    """A moment of the host's kernel log: the time of its last line then, in seconds since boot."""

    time: Maybe[float]


def read_log(session: Session) -> Maybe[str]:
    """Return the kernel's log as ``dmesg`` prints it."""
    done = session.run(("dmesg",), timeout=60.0)
    if done.rc != 0 or done.timed_out:
        why = done.stderr.decode("utf-8", "replace").strip().splitlines()[:1]
        return Unknown(unknown=f"dmesg ended with {done.rc}" + (f": {why[0]}" if why else ""), supply=_AGAIN)
    return done.stdout.decode("utf-8", "replace")


def mark(log: Maybe[str]) -> Mark:
    if isinstance(log, Unknown):
        return Mark(log)
    times = [float(found[1]) for line in log.splitlines() if (found := _TIME.match(line))]
    if not times:
        return Mark(Unknown(unknown="the host's kernel log carries no times", supply="printk.time=1"))
    return Mark(max(times))


def since(log: Maybe[str], moment: Mark) -> Maybe[str]:
    """Return the lines after ``moment``; Unknown where some of them are lost, for the log is a ring."""
    if isinstance(log, Unknown):
        return log
    if isinstance(moment.time, Unknown):
        return moment.time
    lines = log.splitlines()
    times = [float(found[1]) if (found := _TIME.match(line)) else None for line in lines]
    first = next((time for time in times if time is not None), None)
    if first is not None and first > moment.time:
        return Unknown(unknown="the kernel log has turned over since the VM was stopped", supply=_AGAIN)
    kept, is_after = [], False
    for line, time in zip(lines, times, strict=True):
        is_after = is_after if time is None else time > moment.time
        kept += [line] if is_after else []
    return "\n".join(kept)


@dataclass(frozen=True)
class Stuck:
    """One line that says that a card did not come back; ``bdf`` is ``None`` where it names none."""

    fault: Fault
    bdf: str | None
    line: str


def stuck(text: str, functions: tuple[str, ...]) -> tuple[Stuck, ...]:
    """Return what the lines say about these functions, or about none by name."""
    reading = kernel_log.read(text)
    if isinstance(reading, Unknown):
        return ()
    own = {bdf.rpartition(".")[0] for bdf in functions}
    return tuple(
        Stuck(FAULTS[one.id], _function(one, functions), one.record.text)
        for one in sightings(reading.records)
        if one.id in FAULTS and (one.subject is None or one.subject.rpartition(".")[0] in own)
    )


def _function(one: Sighting, functions: tuple[str, ...]) -> str | None:
    """The GPU that a line means: it may name the card's sound function."""
    if one.subject is None or one.subject in functions:
        return one.subject
    slot = one.subject.rpartition(".")[0]
    return next(bdf for bdf in functions if bdf.rpartition(".")[0] == slot)


def judge_log(text: Maybe[str], functions: tuple[str, ...]) -> Judgement:
    """Judge whether the reset worked, by the host's kernel log since the VM was stopped."""
    if isinstance(text, Unknown):
        return undecided(f"the host's kernel log: {text.unknown}", text.supply)
    found = stuck(text, functions)
    if found:
        return failed(found[0].line, "the GPU did not come back: see the advice")
    return passed("no line of a stuck reset in the host's kernel log")


def gpus_of(vm: Vm, model: HostModel, session: Session) -> Maybe[tuple[tuple[int, str], ...]]:
    """Return the host's GPUs that the VM gets: the number of ``hostpciN`` and the GPU's address.

    Of a slot with alternatives the one that the running VM holds; of a stopped VM the first.
    """
    choices = slots(vm, model)
    if isinstance(choices, Unknown):
        return choices
    held = _held(session, vm.vmid)
    gpus = {gpu.bdf for gpu in model.gpus()}
    taken: set[str] = set()
    found: list[tuple[int, str]] = []
    for slot in choices:
        free = [choice for choice in slot.choices if not taken & set(choice)]
        mine = [choice for choice in free if held & set(choice)] or free
        for bdf in mine[0] if mine else ():
            taken.add(bdf)
            if bdf in gpus:
                found.append((slot.index, bdf))
    return tuple(found)


def functions_of(vm: Vm, model: HostModel) -> Maybe[tuple[str, ...]]:
    """Return every function of the host that the VM may get, sorted."""
    choices = slots(vm, model)
    if isinstance(choices, Unknown):
        return choices
    return tuple(sorted({bdf for slot in choices for bdf in slot.bdfs}))


def _held(session: Session, vmid: int) -> set[str]:
    """Functions that Proxmox has reserved for the VM; empty where it is stopped."""
    [read] = session.read([Want(kind="file", pattern=RESERVATIONS)])
    rows = (line.split() for line in read.data.decode("utf-8", "replace").splitlines())
    return {row[0] for row in rows if len(row) > 1 and row[1] == str(vmid)}
