"""Kernel logs of strangers, read where they lie: what each says about its machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from provision.evidence import Unknown
from provision.readers.kernel_log import KernelLog, read, recognize

pytestmark = pytest.mark.corpus


def corpus() -> Path:
    folder = os.environ.get("PVECTL_CORPUS", "")
    if not folder:
        pytest.skip("PVECTL_CORPUS names no folder")
    return Path(folder)


def log_of(start: str) -> KernelLog:
    (path,) = corpus().glob(f"{start}*")
    log = read(path.read_text(encoding="utf-8", errors="replace"))
    assert isinstance(log, KernelLog)
    return log


def test_kernel_logs_and_nothing_else_are_recognized() -> None:
    found = {
        path.parent.name
        for path in sorted(corpus().glob("*/*.txt"))
        if recognize(path.read_text(encoding="utf-8", errors="replace")) >= 0.5
    }
    assert {"dmesg-guest", "dmesg-host"} <= found <= {"dmesg-guest", "dmesg-host", "iommu", "lspci"}


@pytest.mark.parametrize(
    ("start", "origin"),
    [
        ("dmesg-guest/02", "guest"),
        ("dmesg-guest/13", "host"),
        ("dmesg-guest/05", "unknown"),
        ("dmesg-host/10", "host"),
        ("dmesg-host/11", "host"),
    ],
)
def test_origin(start: str, origin: str) -> None:
    assert log_of(start).origin == origin


def test_forms() -> None:
    assert log_of("dmesg-guest/05").forms == ("kmsg",)
    assert log_of("dmesg-guest/07").forms == ("iso",)
    months = log_of("dmesg-guest/11").records
    assert not any(isinstance(record.time, Unknown) for record in months)


@pytest.mark.parametrize(
    ("start", "version", "flavor", "gpus"),
    [
        ("dmesg-guest/11", "510.73.08", "proprietary", 1),
        ("dmesg-guest/13", "595.58.03", "open", 8),
        ("dmesg-guest/02", "550.127.05", "proprietary", 4),
    ],
)
def test_driver_and_gpus(start: str, version: str, flavor: str, gpus: int) -> None:
    facts = log_of(start).facts
    assert [(driver.version, driver.flavor) for driver in facts.drivers] == [(version, flavor)]
    assert len(facts.nvidia_gpus) == gpus


@pytest.mark.parametrize(
    ("start", "units", "regions", "groups", "words"),
    [
        ("dmesg-host/02", 2, 9, None, "xapic mode"),
        ("dmesg-host/05", 4, 0, 0, "Interrupt remapping enabled"),
        ("dmesg-host/10", 1, 0, 25, "Interrupt remapping enabled"),
        ("dmesg-host/11", 8, 0, 81, "Interrupt remapping enabled"),
    ],
)
def test_iommu(start: str, units: int, regions: int, groups: int | None, words: str) -> None:
    facts = log_of(start).facts
    assert (facts.iommu_units, len(facts.regions)) == (units, regions)
    assert groups is None or len(set(facts.groups.values())) == groups
    assert words in str(facts.remapping)


def test_gpus_alone_in_their_groups() -> None:
    groups = log_of("dmesg-host/11").facts.groups
    assert (groups["0000:c1:00.0"], groups["0000:e1:00.0"]) == (65, 55)
    assert list(groups.values()).count(65) == list(groups.values()).count(55) == 1
