"""The test host for all tests here: its disk is built once, its boots are recorded with their wall times."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

NEEDED = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "sfdisk": "fdisk",
    "ssh-keygen": "openssh-client",
    "cc": "gcc and libc6-dev",
}
_TIMES = pytest.StashKey["Times"]()


@dataclass
class Times:
    """Wall times of what was done, for the report at the end."""

    rows: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def of(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.rows.append((what, time.monotonic() - began))


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_TIMES] = Times()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if item.path.is_relative_to(HERE) and item.get_closest_marker("realkernel")]
    reason = _missing() if ours else ""
    for item in ours if reason else ():
        item.add_marker(pytest.mark.skip(reason=reason))


def _missing() -> str:
    absent = [f"{name} (Debian: {package})" for name, package in NEEDED.items() if not shutil.which(name)]
    if absent:
        return f"a real kernel needs {', '.join(absent)}"
    if os.geteuid() != 0 and not _is_built():
        return "building the test host's disk needs root"
    return ""


def _is_built() -> bool:
    from rk_image import cache_folder, recipe_hash

    return (cache_folder() / recipe_hash()).exists()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = config.stash[_TIMES].rows
    if rows:
        terminalreporter.section("wall times on the real kernel")
        for what, seconds in rows:
            terminalreporter.write_line(f"{seconds:7.1f} s  {what}")
        from rk_vm import Vm

        again = Vm.all_failures
        names = f" ({', '.join(sorted(set(again)))})" if again else ""
        terminalreporter.write_line(f"boots begun again after a failure of the emulator: {len(again)}{names}")


@pytest.fixture(scope="session")
def times(request: pytest.FixtureRequest) -> Times:
    return request.config.stash[_TIMES]


@pytest.fixture(scope="session")
def host_image(times: Times) -> object:
    from rk_image import image

    with times.of("the test host's disk: built, or found in the cache"):
        return image()


@pytest.fixture(scope="session")
def accel(host_image: object, times: Times) -> str:
    from rk_vm import choose_accel

    with times.of("whether KVM boots a kernel here"):
        return choose_accel(host_image)
