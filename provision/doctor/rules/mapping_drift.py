"""The next boot will move IOMMU groups that mappings record."""

from __future__ import annotations

from provision.boot.cmdline import Cmdline
from provision.boot.lint.cmdline import noop_of
from provision.doctor import cite
from provision.doctor.finding import Evidence, Finding
from provision.doctor.lint import written_line
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found, open_question
from provision.evidence import Unknown, known
from provision.host.model import HostModel, MappingEntry, PciMapping
from provision.pci.grouping import options_for, predict_numbers
from provision.pve.mapping import MAPPING_FILE
from provision.pve.mapping_check import paths

ID = "mapping-drift"
SOURCE = "Linux, drivers/iommu/iommu.c; pve-guest-common, src/PVE/Mapping/PCI.pm (assert_valid)"


def check(model: HostModel) -> Outcome:
    mappings, node, line = model.proxmox.mappings, model.proxmox.node, model.kernel.running_cmdline
    wanted = written_line(model)
    facts = (
        (mappings, MAPPING_FILE),
        (node, "the name of this node"),
        (line, cite.RUNNING),
        (wanted, "the boot files"),
    )
    if (
        isinstance(mappings, Unknown)
        or isinstance(node, Unknown)
        or isinstance(line, Unknown)
        or isinstance(wanted, Unknown)
    ):
        yield from open_question(ID, *facts)
        return
    recorded = [(m, e) for m in mappings for e in m.entries if e.node == node and e.iommugroup is not None]
    if not recorded or _acs_words(wanted, model) == _acs_words(line, model):
        return
    numbers = predict_numbers(model, options_for(model, wanted))
    if isinstance(numbers, Unknown):
        yield undecided(ID, numbers, "IOMMU groups after the next boot")
        return
    moved = [
        (m, e, numbers[path])
        for m, e in recorded
        for path in paths(e)[:1]
        if numbers.get(path) not in (None, e.iommugroup)
    ]
    if moved:
        yield _finding(model, wanted, moved)


def _acs_words(line: str, model: HostModel) -> tuple[str, ...]:
    """Return the words that groups depend on, without those that do nothing."""
    keys = ("iommu", "intel_iommu", "amd_iommu", "pcie_acs_override", "pci")
    words = (token for token in Cmdline.parse(line).kernel if token.key in keys)
    return tuple(token.raw for token in words if noop_of(token, model.kernel.cpu_vendor) is None)


def _finding(model: HostModel, wanted: str, moved: list[tuple[PciMapping, MappingEntry, int]]) -> Finding:
    names = tuple(dict.fromkeys(mapping.id for mapping, _, _ in moved))
    words = " ".join(_acs_words(wanted, model))
    return found(
        ID,
        "warning",
        (f"mapping/{name}" for name in names),
        f"the next boot gives other IOMMU groups to devices of mapping {', '.join(names)}",
        (
            Evidence(
                source=str(known(model.boot.cmdline_file, "/etc/default/grub")), excerpt=words or "(no such word)"
            ),
            *(cite.mapping_line(model, mapping.id, entry.raw) for mapping, entry, _ in moved),
        ),
        "their VMs will not start after the reboot: 'iommugroup' does not match",
        "after the reboot, before the VMs start: pvectl plan, pvectl apply (or pvectl mapping repair)",
        source=SOURCE,
        plan_fixes=True,
    )


RULE = Rule(ID, "The next boot changes IOMMU groups that mappings record", check)
