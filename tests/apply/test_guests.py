"""Guests: who goes down when, and who runs again."""

from __future__ import annotations

import pytest

from provision.errors import ApplyStopped
from provision.plan.model import VmSet


def everybody(bench):
    """A plan that reboots a host on which VM 101 runs, too."""
    bench.host.guests[101].running = True
    return bench.plan().model_copy(update={"stops_guests": (100, 101), "starts_guests": (100, 101)})


def test_a_guest_that_only_the_reboot_takes_down_runs_until_then(bench):
    bench.apply(everybody(bench))
    assert not bench.host.guests[100].running
    assert bench.host.guests[101].running
    bench.resume(reboot=True)
    assert bench.host.snapshot()["running"] == {100, 101}
    assert "vm_shutdown 101" not in bench.host.calls


def test_rollback_starts_every_guest_that_ran_before(bench):
    before = {**bench.host.snapshot(), "running": {100, 101}}
    bench.apply(everybody(bench), reboot=True)
    bench.rollback(reboot=True)
    assert bench.host.snapshot() == before


def test_rollback_before_the_reboot_leaves_the_others_alone(bench):
    before = {**bench.host.snapshot(), "running": {100, 101}}
    bench.apply(everybody(bench))
    outcome = bench.rollback()
    assert bench.host.snapshot() == before
    assert "Start VM 101" not in outcome.steps


def test_a_guest_that_comes_up_with_the_host_is_shut_down_for_its_change(bench):
    plan = everybody(bench)
    later = tuple(c.model_copy(update={"phase": "after-reboot"}) if c.id == "vm.100" else c for c in plan.changes)
    reboot = bench.host.reboot

    def onboot():
        reboot()
        bench.host.guests[100].running = True

    bench.host.reboot = onboot
    assert bench.apply(plan.model_copy(update={"changes": later}), reboot=True).status == "done"
    assert bench.host.guests[100].values["hostpci0"] == "mapping=gpu-0,pcie=1"
    assert bench.host.calls.count("vm_shutdown 100") == 1


def test_a_guest_that_the_run_started_is_down_after_the_rollback(bench):
    bench.host.guests[100].running = False
    before = bench.host.snapshot()
    bench.apply(bench.plan(), reboot=True)
    assert bench.host.guests[100].running
    bench.rollback(reboot=True)
    assert bench.host.snapshot() == before


def test_a_guest_that_someone_starts_in_the_middle(bench):
    update = bench.host.update_grub

    def start_it():
        update()
        bench.host.guests[100].running = True

    bench.host.update_grub = start_it
    with pytest.raises(ApplyStopped, match="VM 100 on root@pve1: it is running"):
        bench.apply(bench.plan())


def test_an_option_that_waits_for_a_cold_start_is_not_done():
    from provision.apply.objects import vm_done, vm_ready
    from provision.apply.records import VmFacts

    operation = VmSet(vmid=100, set={"cores": "4"}, before={"cores": None})
    waits = VmFacts(vmid=100, values={"cores": "4"}, waiting=("cores",))
    assert not vm_done(operation, waits)
    assert not vm_ready(operation, waits)
    assert vm_done(operation, waits.model_copy(update={"waiting": ()}))
