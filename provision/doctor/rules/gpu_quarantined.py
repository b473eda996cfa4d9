"""A GPU did not come back in an earlier test, and nobody has released it."""

from __future__ import annotations

from provision.doctor.finding import Evidence, Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.errors import PvectlError
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.host.quarantine import QUARANTINE_FILE, Quarantined, parse_quarantine

ID = "gpu-quarantined"
SOURCE = "pvectl, docs/howto/cycles.md"


def check(model: HostModel) -> Outcome:
    state = model.files.get(QUARANTINE_FILE)
    content = Unknown(unknown="it was not captured") if state is None else state.content
    if isinstance(content, Unknown):
        yield undecided(ID, content, QUARANTINE_FILE)
        return
    if content is None:
        return
    try:
        entries = parse_quarantine(content, QUARANTINE_FILE)
    except PvectlError as error:
        yield undecided(ID, Unknown(unknown=error.message, supply=error.hint), QUARANTINE_FILE)
        return
    for entry in entries:
        yield _finding(entry, model)


def _finding(entry: Quarantined, model: HostModel) -> Finding:
    doubt = "" if entry.sure else ", or another GPU of that VM did not"
    boot = model.kernel.boot_id
    since = "the host has booted since" if isinstance(boot, str) and boot != entry.boot_id else "the host runs on"
    return Finding(
        rule=ID,
        severity="warning",
        subjects=(entry.bdf, f"vm/{entry.vmid}"),
        summary=f"{entry.bdf} is in quarantine: it did not come back after VM {entry.vmid} was stopped{doubt}",
        evidence=(Evidence(source=QUARANTINE_FILE, excerpt=f"since {entry.since}: {entry.reason}; {since}"),),
        consequence="a VM that is started with it fails or hangs, and may take the host with it",
        remedy=(
            f"echo 1 > /sys/bus/pci/devices/{entry.bdf}/reset   # with every VM that uses it stopped",
            "systemctl poweroff   # and half a minute without power brings it back for certain",
            f"pvectl verify --release {entry.bdf}   # once it works again",
        ),
        source=SOURCE,
        plan_fixes=False,
    )


RULE = Rule(ID, "A GPU did not come back after a VM was stopped", check)
