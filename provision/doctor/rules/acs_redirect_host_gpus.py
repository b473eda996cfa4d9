"""Traffic between GPUs of one switch goes through the root port."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.fabric import parent_of
from provision.doctor.finding import Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found, open_question
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.model import AcsState, PciFunction

ID = "acs-redirect-host-gpus"
SOURCE = (
    "PCI Express Base Specification, 7.7.11; NVIDIA NCCL documentation, Troubleshooting, PCI Access Control Services"
)
_REDIRECT = 0x04
"""P2P Request Redirect in the ACS control register."""


def check(model: HostModel) -> Outcome:
    below: dict[str, list[tuple[PciFunction, PciFunction]]] = {}
    for gpu in model.gpus():
        port = parent_of(gpu, model)
        if port is not None and port.parent is not None and gpu.driver == "nvidia":
            below.setdefault(port.parent, []).append((gpu, port))
    for pairs in below.values():
        if len(pairs) < 2:
            continue
        redirecting = []
        for gpu, port in pairs:
            state = port.config if isinstance(port.config, Unknown) else port.config.acs
            if isinstance(state, Unknown):
                yield undecided(ID, state, f"ACS of {port.bdf}")
            elif state is not None and state.control & _REDIRECT:
                redirecting.append((gpu, port, state))
        if len(redirecting) > 1:
            yield _finding(redirecting)
    yield from open_question(
        ID, *((gpu.driver, f"driver of {gpu.bdf}") for gpu in model.gpus() if _is_switched(gpu, model))
    )


def _is_switched(gpu: PciFunction, model: HostModel) -> bool:
    port = parent_of(gpu, model)
    return port is not None and port.parent is not None


def _finding(redirecting: list[tuple[PciFunction, PciFunction, AcsState]]) -> Finding:
    return found(
        ID,
        "warning",
        (gpu.bdf for gpu, _, _ in redirecting),
        f"{len(redirecting)} GPUs below one switch are used by the host, and their ports redirect requests upwards",
        (
            cite.hardware(f"{port.bdf}/config", f"ACS control {state.control:#06x}: RR is on")
            for _, port, state in redirecting
        ),
        "transfers between them cross the uplink twice: about half the speed",
        "on a host without VMs clear RR on these ports (setpci, after each boot); never where guests have devices",
        source=SOURCE,
    )


RULE = Rule(ID, "Traffic between GPUs of one switch is sent through its root port", check)
