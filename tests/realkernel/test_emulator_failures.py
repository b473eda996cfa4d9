"""A boot that the emulator itself spoils is begun again, a few times, and nothing else is."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from rk_failures import failure_in
from rk_image import Image
from rk_vm import BOOTS_AGAIN, Hardware, Vm

PANIC = (
    "[    0.113000] ..MP-BIOS bug: 8254 timer not connected to IO-APIC\r\n"
    "[    0.250000] Kernel panic - not syncing: timer doesn't work through Interrupt-remapped IO-APIC\r\n"
    "[    0.251000] CPU: 0 UID: 0 PID: 0 Comm: swapper/0 Not tainted\r\n"
)
OTHERS = (
    "",
    "[    2.1] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)\r\n",
    "[    0.1] ..MP-BIOS bug: 8254 timer not connected to IO-APIC\r\n[    3.0] Run /init as init process\r\n",
    "[   40.0] watchdog: BUG: soft lockup - CPU#1 stuck for 26s!\r\n",
)


def test_the_panics_of_a_late_timer_are_known() -> None:
    found = failure_in(PANIC)
    assert found is not None
    assert found.name == "late timer under interrupt remapping"
    other = failure_in("Kernel panic - not syncing: IO-APIC + timer doesn't work!  Boot with apic=debug\n")
    assert other is not None
    assert other.name == "late timer"


@pytest.mark.parametrize("console", OTHERS)
def test_anything_else_is_no_failure_of_the_emulator(console: str) -> None:
    assert failure_in(console) is None


@dataclasses.dataclass
class Scripted(Vm):
    """A host whose boots are lines on its console instead of an emulator's."""

    boots: tuple[str, ...] = ()
    ends: bool = False
    all_failures: ClassVar[list[str]] = []

    def _argv(self) -> list[str]:
        number = len(self.failures)
        script = "import sys, time; open(sys.argv[1], 'w').write(sys.argv[2]); time.sleep(float(sys.argv[3]))"
        seconds = "0" if self.ends and number + 1 < len(self.boots) else "60"
        return [sys.executable, "-c", script, str(self.folder / "console.log"), self.boots[number], seconds]

    def _greets(self) -> bool:
        return self.console().endswith("login: ")


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[Any]:
    hosts: list[Scripted] = []
    (tmp_path / "host_key.pub").write_text("ssh-ed25519 AAAA\n", "ascii")
    Scripted.all_failures.clear()

    def make(*boots: str, ends: bool = False) -> Scripted:
        host = Scripted(Image(tmp_path), Hardware(devices=()), tmp_path / "vm", boots=boots, ends=ends)
        hosts.append(host)
        host.start()
        return host

    yield make
    for host in hosts:
        host.stop()


@pytest.mark.parametrize("ends", [False, True], ids=["it hangs", "the emulator ends"])
def test_a_spoiled_boot_is_begun_again_and_counted(scripted: Any, ends: bool) -> None:
    host = scripted(PANIC, "testhost login: ", ends=ends)
    host.wait_ready(limit=30)
    assert host.failures == ["late timer under interrupt remapping"]
    assert Scripted.all_failures == host.failures
    assert (host.folder / "console-1.log").read_text("utf-8") == PANIC.replace("\r\n", "\n")


def test_twice_at_most(scripted: Any) -> None:
    host = scripted(PANIC, PANIC, PANIC, "never reached login: ")
    with pytest.raises(RuntimeError, match="no SSH within"):
        host.wait_ready(limit=6)
    assert len(host.failures) == BOOTS_AGAIN == 2


def test_a_reboot_that_nobody_waits_for_is_watched_too(scripted: Any) -> None:
    host = scripted("testhost login: ", "testhost login: ")
    host.wait_ready(limit=30)
    with (host.folder / "console.log").open("a") as console:
        console.write(PANIC)
    until = time.monotonic() + 30
    while not host.failures and time.monotonic() < until:
        time.sleep(0.1)
    host.wait_ready(limit=30)
    assert len(host.failures) == 1


def test_another_panic_is_left_to_the_test(scripted: Any) -> None:
    host = scripted(OTHERS[1])
    with pytest.raises(RuntimeError, match="Unable to mount root"):
        host.wait_ready(limit=3)
    assert host.failures == []
