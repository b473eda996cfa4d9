"""Fixtures of the doctor's tests: see doctor_hosts.py and doctor_examples.py."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from provision.host.model import HostModel

sys.path.insert(0, str(Path(__file__).resolve().parent))

import doctor_hosts
from doctor_examples import EXAMPLES
from doctor_hosts import SICK, Build


@pytest.fixture
def build() -> type[Build]:
    return Build


@pytest.fixture
def examples():
    """Return the texts and functions that hosts are made of."""

    class Examples:
        cmdline = doctor_hosts.CMDLINE
        grub = doctor_hosts.GRUB_TEXT
        mappings = doctor_hosts.MAPPINGS
        pool = doctor_hosts.POOL
        vm = doctor_hosts.VM
        clique = doctor_hosts.CLIQUE
        gpu = staticmethod(doctor_hosts.gpu)
        function = staticmethod(doctor_hosts.function)
        functions = staticmethod(doctor_hosts.functions)
        regrouped = staticmethod(doctor_hosts.regrouped)
        changed = staticmethod(doctor_hosts.changed)
        without_group = staticmethod(doctor_hosts.without_group)

    return Examples


@pytest.fixture
def healthy() -> HostModel:
    return Build().model()


@pytest.fixture
def sick() -> dict[str, Callable[[], HostModel]]:
    """Return a host for each rule on which it fires."""
    return {**SICK, **{example.rule: example.sick.model for example in EXAMPLES}}
