"""Boot loaders that undo by themselves: one boot with the new command line, and the default at the confirmation."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from provision.lab import esp, grub, grub_env
from provision.lab.machine import load_machine
from provision.lab.variants import on_plain_partition

pytestmark = pytest.mark.story

SNIPPET = "etc/default/grub.d/60-pvectl.cfg"
CMDLINE = "etc/kernel/cmdline"


@pytest.fixture(params=["grub", pytest.param("systemd-boot", marks=pytest.mark.laws)])
def host(request: pytest.FixtureRequest, on_lab: Callable[..., Any]) -> Any:
    plain = on_plain_partition(load_machine("epyc-8x-rtxpro6000"))
    made = on_lab(plain if request.param == "grub" else "switch-4x4", "quick-timers")
    made.loader = request.param
    return made


def wish(host: Any) -> str:
    """Return an inventory that changes the command line."""
    return host.inventory(
        lambda d: d["policies"].update(iommu="pt", boot={"confirm_within": "10h"}, guests="stop"), "wish.yaml"
    )


def default_has_it(host: Any) -> bool:
    """Whether the boot after the next one has the new command line."""
    if host.loader == "grub":
        return "iommu=pt" in grub.booted_cmdline((host.root / grub.GRUB_CFG).read_text())[1]
    folder = esp.esp_folder(host.root, esp.uuids(host.root)[0])
    entry = folder / f"loader/entries/proxmox-{grub.kernels(host.root)[0]}.conf"
    return "iommu=pt" in entry.read_text()


def is_asked(host: Any) -> bool:
    """Whether the boot loader takes our entry next."""
    if host.loader == "grub":
        return grub_env.read(host.root).get("next_entry") == "pvectl-once"
    return esp.variable(host.root, esp.ONE_SHOT) == "pvectl-once.conf"


def leftovers(host: Any) -> list[str]:
    found = [host.root / grub.CUSTOM_CFG, *host.root.parent.rglob("pvectl-once.conf")]
    return [str(path) for path in found if path.exists()]


def running(host: Any) -> str:
    return (host.root / "proc/cmdline").read_text()


def test_from_the_plan_to_the_confirmation_and_back(host: Any, set_up: Callable[[Any], Any]) -> None:
    before, inventory = set_up(host), wish(host)
    plan = host.call("plan", "-i", inventory).must(0, "Boot once with the new kernel command line", "Two mechanisms")
    assert "at the confirmation" in plan.out
    host.call("apply", "-i", inventory, "--yes").must(6, "one-shot boot entry", "600 minutes after its boot")
    assert is_asked(host)
    assert not default_has_it(host)
    host.lab.reboot()
    assert "iommu=pt" in running(host)
    assert not is_asked(host)
    assert not default_has_it(host)
    doctor = host.call("doctor", "-i", inventory)
    assert "waits for its confirmation" in doctor.out
    host.call("apply", "-i", inventory, "--resume").must(0, "Apply done")
    assert default_has_it(host)
    assert not leftovers(host)
    host.lab.reboot()
    assert "iommu=pt" in running(host)
    host.call("plan", "-i", inventory, "--detailed-exitcode").must(0)
    host.call("rollback", "-i", inventory, "--yes", "--reboot", "--stop-guests").must(0, "Rollback done")
    assert "iommu=pt" not in running(host)
    assert set_up(host) == before


def test_a_kernel_that_does_not_come_up_is_gone_after_a_reset(host: Any, set_up: Callable[[Any], Any]) -> None:
    before, inventory = set_up(host), wish(host)
    host.call("apply", "-i", inventory, "--yes").must(6)
    host.lab.reboot()
    host.lab.reboot()
    assert "iommu=pt" not in running(host)
    host.call("confirm", "-i", inventory).must(4, "is back in the previous one")
    host.call("apply", "-i", inventory, "--resume").must(6)
    assert is_asked(host)
    host.call("rollback", "-i", inventory, "--yes", "--reboot", "--stop-guests").must(0, "Rollback done")
    assert not is_asked(host)
    assert not leftovers(host)
    assert set_up(host) == before


def test_pvectl_confirm_makes_it_the_default(host: Any) -> None:
    inventory = wish(host)
    host.call("apply", "-i", inventory, "--yes").must(6)
    host.lab.reboot()
    host.call("confirm", "-i", inventory).must(0, "Confirmed")
    assert default_has_it(host)
    assert not leftovers(host)
    journals = list((host.root / "var/lib/pvectl/runs").glob("*/journal.jsonl"))
    events = [json.loads(line)["data"] for line in journals[0].read_text().splitlines()]
    assert [e["did"] for e in events if e["event"] == "dead-man"] == ["promoting", "confirmed"]
    host.call("apply", "-i", inventory, "--resume").must(0, "Apply done")


@pytest.mark.laws
def test_an_unconfirmed_boot_is_taken_back_by_the_dead_man(host: Any, set_up: Callable[[Any], Any]) -> None:
    before = set_up(host)
    inventory = host.inventory(
        lambda d: d["policies"].update(iommu="pt", boot={"confirm_within": "2m"}, guests="stop"), "wish.yaml"
    )
    host.call("apply", "-i", inventory, "--yes").must(6)
    host.lab.reboot()
    host.wait(lambda: host.lab.host.reboots >= 2 and "iommu=pt" not in running(host))
    assert not leftovers(host)
    host.wait(lambda: not (host.root / "etc/systemd/system/timers.target.wants/pvectl-deadman.timer").is_symlink())
    host.call("rollback", "-i", inventory, "--yes").must(0, "Rollback done")
    assert set_up(host) == before
