"""A boot without network: the host comes back by itself, and pvectl says what happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.story

SYSTEM = "etc/systemd/system"


def within(host: Any, time: str) -> str:
    """Return an inventory with that time for the confirmation."""
    return host.inventory(lambda d: d["policies"].update(boot={"confirm_within": time}), "within.yaml")


def test_a_boot_without_network_is_taken_back(on_lab: Callable[..., Any], set_up: Callable[[Any], Any]) -> None:
    host = on_lab("epyc-8x-rtxpro6000", "network-lost", "quick-timers")
    before = set_up(host)
    wish = within(host, "2m")
    host.call("apply", "-i", wish, "--yes", "--reboot").must(5, "its dead-man acted", "pvectl rollback")
    assert host.lab.host.reboots == 2
    assert "iommu=pt" not in (host.root / "proc/cmdline").read_text()
    host.wait(lambda: not (host.root / SYSTEM / "timers.target.wants/pvectl-deadman.timer").is_symlink())
    host.call("apply", "-i", wish, "--resume").must(5, "mapping rtx6000 restored")
    host.call("rollback", "-i", wish, "--yes").must(0, "Rollback done")
    assert set_up(host) == before
    assert host.lab.host.reboots == 2


def test_a_confirmed_host_is_left_alone(on_lab: Callable[..., Any]) -> None:
    host = on_lab("epyc-8x-rtxpro6000", "quick-timers")
    wish = within(host, "10h")
    host.call("apply", "-i", wish, "--yes").must(6, "600 minutes after its boot", "--resume")
    assert "pvectl rollback" in (host.root / SYSTEM / "pvectl-deadman.service").read_text()
    host.lab.reboot()
    host.call("apply", "-i", wish, "--resume").must(0, "Apply done")
    assert not list((host.root / SYSTEM).glob("pvectl-*"))
    assert host.lab.host.reboots == 1


def test_a_boot_with_the_old_command_line_is_not_confirmed(on_lab: Callable[..., Any]) -> None:
    """The firmware took another disk: what the plan expects of the host does not hold."""
    host = on_lab("epyc-8x-rtxpro6000", "cmdline-lost")
    host.call("apply", "--yes", "--reboot").must(5, "lacks iommu=pt", "is not confirmed", "pvectl confirm")
    assert list((host.root / SYSTEM).glob("pvectl-deadman.*"))
