"""The ACS override has nothing to override."""

from __future__ import annotations

from provision.boot.cmdline import Cmdline
from provision.doctor import cite
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found, open_question
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.model import AcsState
from provision.pci.tree import Tree

ID = "acs-override-idle"
SOURCE = "pve-kernel, patches/kernel (Enable overrides for missing ACS capabilities)"


def check(model: HostModel) -> Outcome:
    line = model.kernel.running_cmdline
    gpus = model.gpus()
    if isinstance(line, Unknown):
        yield undecided(ID, line, cite.RUNNING)
        return
    words = [token for token in Cmdline.parse(line).kernel if token.key == "pcie_acs_override"]
    if not words or not gpus:
        return
    ports = {port.bdf: port for gpu in gpus for port in Tree(model.pci).ancestors(gpu)}
    states = {bdf: port.config if isinstance(port.config, Unknown) else port.config.acs for bdf, port in ports.items()}
    yield from open_question(ID, *((state, f"ACS of {bdf}") for bdf, state in states.items()))
    if ports and all(isinstance(state, AcsState) for state in states.values()):
        yield found(
            ID,
            "info",
            ("host",),
            f"{words[0].raw} is set, and every port above the GPUs has ACS of its own",
            (cite.running(words[0]), *(cite.hardware(f"{bdf}/config", "ACS is there") for bdf in states)),
            "none for the GPUs; for other devices it asserts an isolation that is not there. It never merges groups",
            "remove it from the kernel command line",
            source=SOURCE,
        )


RULE = Rule(ID, "The ACS override changes nothing for the GPUs", check)
