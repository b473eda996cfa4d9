"""The cycles as a JUnit report: one test case for each cycle, its seconds as properties."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from provision.verify.cycles_model import Cycle, CyclesReport, VmCycles


def write_junit(report: CyclesReport, path: Path) -> None:
    """Write the file.  A failed check is a failure, one that could not look an error, a cycle not begun is skipped."""
    suites = ET.Element("testsuites")
    suite = ET.SubElement(suites, "testsuite", name=f"pvectl cycles {report.host}")
    for vm in report.vms:
        for number in range(1, vm.wanted + 1):
            _case(suite, vm, number)
    for name, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(len(list(suite.iter(tag)))))
    ET.indent(suites)
    ET.ElementTree(suites).write(path, encoding="utf-8", xml_declaration=True)


def _case(suite: ET.Element, vm: VmCycles, number: int) -> None:
    cycle = next((one for one in vm.cycles if one.number == number), None)
    seconds = {} if cycle is None else cycle.seconds
    case = ET.SubElement(
        suite, "testcase", classname=f"vm-{vm.vmid}", name=f"cycle-{number}", time=f"{sum(seconds.values()):.3f}"
    )
    if seconds:
        properties = ET.SubElement(case, "properties")
        for step, value in seconds.items():
            ET.SubElement(properties, "property", name=f"seconds_{step}", value=f"{value:.3f}")
    if cycle is None:
        ET.SubElement(case, "skipped", message="not begun: " + (vm.trouble.text if vm.trouble else vm.state))
        return
    _outcome(case, vm, cycle)


def _outcome(case: ET.Element, vm: VmCycles, cycle: Cycle) -> None:
    """One outcome: a failure before an error."""
    is_last = cycle is vm.cycles[-1]
    if is_last and vm.trouble is not None:
        tag = "error" if vm.trouble.fault == "error" else "failure"
        text = "\n".join((*vm.trouble.evidence, *vm.trouble.advice, vm.state))
        ET.SubElement(case, tag, message=vm.trouble.text, type=vm.trouble.fault).text = text
        return
    if not cycle.is_done:
        ET.SubElement(case, "skipped", message=vm.state)
        return
    for name, judgement in cycle.judgements.items():
        if judgement.state == "undecided":
            ET.SubElement(case, "error", message=f"{name}: {judgement.text}", type="could-not-look")
            return
