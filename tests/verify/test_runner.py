"""The suite as a real pytest process: exit codes, JUnit, folding, and a guest nobody asked."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from provision.plan.model import Expectation
from provision.remote.session import Target
from provision.verify.runner import run_suite
from provision.verify.text import report_text

sys.path.insert(0, str(Path(__file__).resolve().parent))
import facts_builder as build

TARGETS = {"pve1": Target(name="pve1", kind="local"), "guest-100": Target(name="guest", kind="local")}
GOOD = (
    build.expect("iommu-on", "host"),
    build.expect("driver", "0000:41:00.0", "vfio-pci"),
    build.expect("vm-running"),
    build.expect("guest-gpus", "vm/100", "2"),
    build.expect("guest-p2p", "vm/100", "off"),
)


def test_all_pass_ends_with_0_and_a_junit_file(tmp_path: Path) -> None:
    junit = tmp_path / "report.xml"
    report = run_suite(build.facts(), GOOD, TARGETS, junit)
    assert report.exit_code == 0
    assert [r.check for r in report.results] == [e.check for e in GOOD]
    cases = list(ET.parse(junit).getroot().iter("testcase"))
    assert len(cases) == len(GOOD), "each expectation is judged once, on the host it speaks of"
    assert "GPU0" in report_text(report)


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        (build.expect("guest-gpus", "vm/100", "8"), 7),
        (build.expect("guest-gpus", "vm/200", "1"), 8),
        (build.expect("from-the-future", "host"), 8),
    ],
    ids=["failed", "guest not asked", "unknown check"],
)
def test_exit_code(extra: Expectation, code: int) -> None:
    report = run_suite(build.facts(), (*GOOD[:3], extra), TARGETS)
    assert report.exit_code == code, report_text(report)
    assert len(report.results) == 4


def test_nothing_expected_is_no_success() -> None:
    assert run_suite(build.facts(), (), TARGETS).exit_code == 8


def test_many_equal_passes_are_one_row() -> None:
    many = tuple(build.expect("mapping-valid", f"mapping/gpu-{n}") for n in range(8))
    facts = build.facts(mapping_checks={f"gpu-{n}": () for n in range(8)})
    text = report_text(run_suite(facts, many, TARGETS))
    assert "8 mappings" in text
    assert text.count("mapping-valid") == 1
    assert max(len(line) for line in text.splitlines()) <= 100
