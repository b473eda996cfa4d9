"""ids= takes more devices than it should."""

from __future__ import annotations

from collections.abc import Iterator

from provision.boot.cmdline import Cmdline
from provision.doctor import cite
from provision.doctor.fabric import titles
from provision.doctor.finding import Evidence, Finding
from provision.doctor.rule import Outcome, Rule
from provision.doctor.say import found, open_question
from provision.evidence import Unknown, known
from provision.host.boot_files import modprobe_files
from provision.host.model import HostModel
from provision.pci.model import PciFunction

ID = "vfio-ids-shared"
SOURCE = "Linux, Documentation/driver-api/vfio.rst"


def check(model: HostModel) -> Outcome:
    given_ids = {ids: evidence for source in (_cmdline(model), _modprobe(model)) for ids, evidence in source}
    if not given_ids:
        yield from open_question(
            ID, (model.kernel.running_cmdline, cite.RUNNING), (modprobe_files(model), "/etc/modprobe.d")
        )
        return
    for ids, evidence in given_ids.items():
        of_model = [function for function in model.pci if function.ids == ids]
        kept = [f for f in of_model if isinstance(f.driver, str) and f.driver != "vfio-pci"]
        if kept:
            yield _finding(ids, evidence, kept)
        elif of_model:
            yield from open_question(ID, *((f.driver, f"driver of {f.bdf}") for f in of_model))


def _cmdline(model: HostModel) -> Iterator[tuple[str, Evidence]]:
    for token in Cmdline.parse(known(model.kernel.running_cmdline, "")).kernel:
        if token.key == "vfio_pci.ids":
            for part in (token.value or "").lower().split(","):
                yield part[:9], cite.running(token)


def _modprobe(model: HostModel) -> Iterator[tuple[str, Evidence]]:
    files = modprobe_files(model)
    for path, file in {}.items() if isinstance(files, Unknown) else files.items():
        for name, value in file.options("vfio-pci"):
            for part in (value or "").lower().split(",") if name == "ids" else ():
                yield part[:9], Evidence(source=path, excerpt=f"options vfio-pci ids={value}")


def _finding(ids: str, evidence: Evidence, kept: list[PciFunction]) -> Finding:
    return found(
        ID,
        "warning",
        (function.bdf for function in kept),
        f"ids= names {ids}, and the host uses {titles(kept)} with another driver",
        (evidence, *(cite.hardware(f"{f.bdf}/driver", str(f.driver)) for f in kept)),
        "whichever driver comes first gets it: the next boot may take it from the host",
        "bind by address instead: policies.binding: per-device in the inventory, then pvectl plan",
        source=SOURCE,
        plan_fixes=True,
        consequence_of=("modprobe-risky", "cmdline-risky"),
    )


RULE = Rule(ID, "ids= of vfio-pci also names a device that the host uses", check)
