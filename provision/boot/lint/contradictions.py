"""Parameters that say the opposite of each other."""

from __future__ import annotations

from collections.abc import Iterator

from provision.boot.cmdline import Cmdline, Token
from provision.boot.lint.parameters import LAST_WINS
from provision.boot.lint.remark import KERNEL, PASSTHROUGH, Remark, Severity

_OPPOSITES: tuple[tuple[str, str, Severity, str], ...] = (
    ("iommu=pt", "iommu=nopt", "warning", "the later of the two holds"),
    ("iommu=pt", "iommu.passthrough=0", "warning", "the later of the two holds"),
    ("iommu=nopt", "iommu.passthrough=1", "warning", "the later of the two holds"),
    ("iommu=pt", "amd_iommu=force_isolation", "warning", "force_isolation overrides pass-through mode"),
    ("intel_iommu=on", "intel_iommu=off", "error", "the later of the two holds"),
    ("intel_iommu=on", "iommu=off", "error", "iommu=off wins: no device can go to a guest"),
    ("amd_iommu=force_enable", "iommu=off", "error", "iommu=off wins: no device can go to a guest"),
    ("iommu=pt", "iommu=off", "error", "iommu=off wins: no device can go to a guest"),
    ("iommu=pt", "intel_iommu=off", "error", "without an IOMMU pass-through mode means nothing"),
    ("iommu=pt", "amd_iommu=off", "error", "without an IOMMU pass-through mode means nothing"),
    ("vfio_pci.ids=*", "iommu=off", "error", "vfio-pci can bind the devices, and no guest can have them"),
    ("vfio_pci.ids=*", "intel_iommu=off", "error", "vfio-pci can bind the devices, and no guest can have them"),
    ("vfio_pci.ids=*", "amd_iommu=off", "error", "vfio-pci can bind the devices, and no guest can have them"),
    ("pcie_acs_override=*", "pci=config_acs=*", "warning", "one splits IOMMU groups, the other may merge them"),
    ("pcie_acs_override=*", "pci=disable_acs_redir=*", "warning", "one splits IOMMU groups, the other merges them"),
)
"""Two parameters, how grave it is, and which of them holds."""


def contradictions(line: Cmdline) -> Iterator[Remark]:
    """Yield what contradicts what on one line."""
    for one, other, severity, text in _OPPOSITES:
        first, second = _find(line, one), _find(line, other)
        if first is not None and second is not None:
            subject = first.raw if first.raw == second.raw else f"{first.raw} {second.raw}"
            yield Remark("contradictory", severity, subject, text, "keep the one that you mean", PASSTHROUGH)
    for key in sorted({token.key for token in line.kernel} & LAST_WINS):
        tokens = line.all(key)
        if len({token.value for token in tokens}) > 1:
            text = f"only the last one counts ({tokens[-1].raw})"
            subject = " ".join(token.raw for token in tokens)
            yield Remark("contradictory", "warning", subject, text, "write one of them, with all values", KERNEL)
    yield from _pages(line)


def _find(line: Cmdline, pattern: str) -> Token | None:
    name, _, value = pattern.partition("=")
    for token in line.all(name):
        parts = (token.value or "").split(",")
        if value == "*" or value in parts or (value.endswith("*") and any(p.startswith(value[:-1]) for p in parts)):
            return token
    return None


def _pages(line: Cmdline) -> Iterator[Remark]:
    """``hugepages=`` counts pages of the size named before it."""
    size_seen = default_seen = False
    for token in line.kernel:
        size_seen = size_seen or token.key == "hugepagesz"
        default_seen = default_seen or token.key == "default_hugepagesz"
        is_later_size = token.key == "hugepages" and not size_seen and not default_seen and line.all("hugepagesz")
        if is_later_size:
            text = "the size stands behind the number: the pages are reserved in the default size"
            yield Remark("contradictory", "warning", token.raw, text, "write hugepagesz= before hugepages=", KERNEL)
            return
