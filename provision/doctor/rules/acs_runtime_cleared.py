"""Isolation of a port was switched off while the system ran."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.fabric import goes_to_guest, group_number, parent_of, title
from provision.doctor.finding import Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found, open_question
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.acs import bit_names
from provision.pci.model import REQUIRED_ACS, AcsState, PciFunction

ID = "acs-runtime-cleared"
SOURCE = "PCI Express Base Specification, 7.7.11; Linux, drivers/pci/pci.c, pci_enable_acs"
_ON_PURPOSE = ("config_acs", "disable_acs_redir")


def check(model: HostModel) -> Outcome:
    line = model.kernel.running_cmdline
    if isinstance(line, str) and any(word in line for word in _ON_PURPOSE):
        return
    for gpu in model.gpus():
        port, passed = parent_of(gpu, model), goes_to_guest(gpu, model)
        if port is None or passed is False:
            continue
        state = port.config if isinstance(port.config, Unknown) else port.config.acs
        if isinstance(state, Unknown):
            yield undecided(ID, state, f"ACS of {port.bdf}")
            continue
        missing = state.capability & REQUIRED_ACS & ~state.control if state else 0
        if not missing or group_number(gpu, model) is None:
            continue
        if isinstance(passed, Unknown) or isinstance(line, Unknown):
            yield from open_question(ID, (passed, f"whether {gpu.bdf} goes to a guest"), (line, cite.RUNNING))
        else:
            yield _finding(gpu, port, missing, state)


def _finding(gpu: PciFunction, port: PciFunction, missing: int, state: AcsState | None) -> Finding:
    offset = f"{state.offset + 6:#x}" if state else ""
    return found(
        ID,
        "error",
        (port.bdf, gpu.bdf),
        f"{port.bdf} above {title(gpu)} has {', '.join(bit_names(missing))} of its ACS switched off",
        (cite.hardware(f"{port.bdf}/config", f"ACS control at {offset}: {state.control if state else 0:#06x}"),),
        "a guest's device can reach memory of others past the IOMMU, although its group says that it is isolated",
        "reboot, or stop the VMs and write 0x1d back; drop scripts that clear ACS with setpci",
        source=SOURCE,
    )


RULE = Rule(ID, "ACS of a port above a passed-through GPU was switched off", check)
