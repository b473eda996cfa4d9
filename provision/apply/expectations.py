"""After the boot: does what the plan expects of the host itself hold?  Guests are no part of it."""

from __future__ import annotations

from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.plan.model import Expectation, Plan


def unmet(plan: Plan, model: HostModel) -> tuple[str, ...]:
    """Return a line for each expectation of IOMMU, command line or driver that does not hold or cannot be told."""
    judges = {"iommu-on": _iommu, "cmdline": _cmdline, "driver": _driver}
    found = [judges[e.check](e, model) for e in plan.expectations if e.check in judges]
    return tuple(line for line in found if line)


def _iommu(_expectation: Expectation, model: HostModel) -> str:
    units = model.iommu.units
    if isinstance(units, Unknown):
        return f"whether the IOMMU is on is {units}"
    return "" if units and model.iommu.groups else "the IOMMU is off"


def _cmdline(expectation: Expectation, model: HostModel) -> str:
    running = model.kernel.running_cmdline
    if isinstance(running, Unknown):
        return f"the kernel command line is {running}"
    words = running.split()
    wrong = [w for w in expectation.expected.split() if (w[1:] in words if w.startswith("!") else w not in words)]
    missing = [word for word in wrong if not word.startswith("!")]
    present = [word[1:] for word in wrong if word.startswith("!")]
    parts = [f"lacks {' '.join(missing)}"] if missing else []
    parts += [f"still has {' '.join(present)}"] if present else []
    return f"the kernel command line {' and '.join(parts)}" if parts else ""


def _driver(expectation: Expectation, model: HostModel) -> str:
    function = model.function(expectation.subject)
    if function is None:
        return f"{expectation.subject} is not there"
    if isinstance(function.driver, Unknown):
        return f"the driver of {expectation.subject} is {function.driver}"
    if function.driver == expectation.expected:
        return ""
    return f"{expectation.subject} is bound to {function.driver or 'no driver'}, not to {expectation.expected}"
