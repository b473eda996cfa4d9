"""The doctor says the same of a bundle as of its capture, on every lab machine, whole and broken."""

from __future__ import annotations

import re

import pytest
from lab_captures import FAULTS, MACHINES, capture_of

from provision.capture.share import share
from provision.doctor.engine import diagnose
from provision.host.assemble import assemble

QUICK = ("", "stale-mapping", "mapping-damaged", "ha-managed", "gpu-swapped")


def said(capture, table):
    """What the doctor says, without the names: rules, severities, devices, lines, commands that plan replaces."""
    report = diagnose(assemble(capture))
    assert not report.crashed
    named = {text: other for kind in ("mapping", "host name") for text, other in table.get(kind, {}).items()}
    found = [
        (
            one.rule,
            one.severity,
            tuple(_named(subject, named) for subject in one.subjects),
            tuple((_named(fact.source, named), fact.line) for fact in one.evidence),
            one.plan_fixes,
        )
        for one in (*report.findings, *report.absorbed)
    ]
    return found, sorted({one.rule for one in report.undecidable}), report.silent


def _named(text, names):
    return re.sub(r"[^/]+", lambda part: names.get(part[0], part[0]), text)


@pytest.mark.parametrize("machine", [MACHINES[0], *(pytest.param(one, marks=pytest.mark.laws) for one in MACHINES[1:])])
@pytest.mark.parametrize(
    "fault", [one if one in QUICK else pytest.param(one, marks=pytest.mark.laws) for one in FAULTS]
)
def test_the_doctor_says_the_same(tmp_path, machine, fault):
    capture = capture_of(machine, fault, tmp_path / "root")
    if capture is None:
        pytest.skip(f"{fault} does not fit {machine}")
    bundle = share(capture)
    assert said(bundle.capture, {}) == said(capture, bundle.table)
    assert "text with a name left" not in bundle.removed
    assert "binary content" not in bundle.removed


@pytest.mark.parametrize("machine", MACHINES)
def test_serial_numbers_stay_apart(tmp_path, machine):
    capture = capture_of(machine, "", tmp_path / "root")
    bundle = share(capture)
    before = {fn.bdf: fn.config.dsn for fn in assemble(capture).pci}
    after = {fn.bdf: fn.config.dsn for fn in assemble(bundle.capture).pci}
    assert len(set(before.values())) == len(set(after.values()))
    assert {bdf for bdf, dsn in before.items() if dsn is None} == {bdf for bdf, dsn in after.items() if dsn is None}
    assert not {dsn for dsn in before.values() if dsn} & set(after.values())
