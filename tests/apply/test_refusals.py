"""Before the first step: what is refused, with what code, and that nothing is left on the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.errors import (
    ApplyStopped,
    ConsentNeeded,
    GuardRefused,
    PrivilegeMissing,
    PvectlError,
    PveError,
    Refused,
    StalePlan,
)
from provision.host.model import NetworkInterface
from provision.inventory.models import Policies
from provision.plan.model import ActionRun, FileWrite, VmSet

from .conftest import FakePve

GRUB = "/etc/default/grub.d/pvectl.cfg"
VFIO = "/etc/modprobe.d/vfio.conf"


def refused(bench, plan, error, **allow):
    """Apply, expect ``error``, and prove that the host is as before."""
    before = bench.host.snapshot()
    with pytest.raises(error) as caught:
        bench.apply(plan, **allow)
    assert bench.host.snapshot() == before
    assert bench.ours() == []
    return caught.value


def with_change(plan, wanted, **fields):
    """Replace one change of the plan."""
    changes = tuple(c.model_copy(update=fields) if c.id == wanted else c for c in plan.changes)
    return plan.model_copy(update={"changes": changes})


def move_file(host):
    host.files[VFIO].data += b"more"


def move_mapping(host):
    host.mappings["pool"] = (host.mappings["pool"][0][:1], None)


def remove_mapping(host):
    del host.mappings["stale"]


def move_vm(host):
    host.guests[100].values["cores"] = "4"


def new_file(host):
    host.files[GRUB] = type(host.files[VFIO])(b"mine\n")


def other_machine(host):
    host.machine_id = "m2"


def other_card(host):
    host.ids = "10de:2b85"


def other_groups(host):
    host.cmdline = "quiet iommu=pt"


@pytest.mark.parametrize(
    ("move", "named"),
    [
        (move_file, f"{VFIO}: its content changed"),
        (new_file, f"{GRUB}: its content changed"),
        (move_mapping, "mapping/pool: its content changed"),
        (remove_mapping, "mapping/stale: it is gone"),
        (move_vm, "vm/100: its content changed"),
        (other_machine, "machine-id: m2, the plan is for m1"),
        (other_card, "0000:41:00.0: 10de:2b85, the plan has 10de:2bb5"),
        (other_groups, "0000:41:00.0: IOMMU group 20, the plan has 10"),
    ],
)
def test_a_stale_plan_names_what_moved(bench, move, named):
    plan = bench.plan()
    move(bench.host)
    error = refused(bench, plan, StalePlan)
    assert error.exit_code == 4
    assert named in error.moved


def test_what_moves_while_the_user_thinks_is_noticed_too(bench):
    plan = bench.plan()
    bench.ask = lambda _: (move_vm(bench.host), True)[1]
    with pytest.raises(StalePlan):
        bench.apply(plan)
    assert bench.ours() == ["/var/lib/pvectl"]
    bench.ask = lambda _: True
    assert bench.apply(bench.plan(), reboot=True).status == "done"


def test_another_host_key(bench):
    plan = bench.plan()
    stale = plan.model_copy(update={"basis": plan.basis.model_copy(update={"host_key": "SHA256:other"})})
    assert any(line.startswith("SSH host key") for line in refused(bench, stale, StalePlan).moved)


def test_an_object_that_cannot_be_read_again_is_not_taken_for_unmoved(bench):
    plan = bench.plan()
    digests = {**plan.basis.digests, "vm/999": ""}
    stale = plan.model_copy(update={"basis": plan.basis.model_copy(update={"digests": digests})})
    assert refused(bench, stale, StalePlan).moved == ("vm/999: it is gone",)


def test_a_device_that_the_host_took_into_use_meanwhile(bench, monkeypatch):
    plan = bench.plan()
    model = bench.host.model()
    nic = NetworkInterface(name="enp65s0", bdf="0000:41:00.0", mac=None, uses=("bridge vmbr0",))
    monkeypatch.setattr(bench.host, "model", lambda: model.model_copy(update={"interfaces": (nic,)}))
    assert "vmbr0" in refused(bench, plan, GuardRefused).message


def test_running_guests_need_consent(bench):
    error = refused(bench, bench.plan(), ConsentNeeded, stop_guests=False)
    assert "VM 100" in error.message
    assert "--stop-guests" in error.hint


def test_a_reboot_counts_every_guest(bench):
    bench.host.guests[100].running = False
    bench.host.guests[101].running = True
    assert "VM 101" in refused(bench, bench.plan(), ConsentNeeded, stop_guests=False, reboot=True).message
    assert bench.apply(bench.plan(), stop_guests=False).status == "reboot-needed"
    with pytest.raises(ConsentNeeded):
        bench.resume(reboot=True, stop_guests=False)
    assert bench.host.boots == 1
    assert bench.resume(reboot=True, stop_guests=True).status == "done"


def test_policy_never_forbids_the_reboot(bench):
    error = refused(bench, bench.plan(), Refused, reboot=True, policies=Policies(reboot="never"))
    assert "policies.reboot: never" in error.message


def test_a_guest_that_was_started_since(bench):
    bench.host.guests[100].running = False
    plan = bench.plan()
    bench.host.guests[100].running = True
    assert refused(bench, plan, StalePlan).moved == ("vm/100: it is running",)


def test_options_that_work_on_a_running_guest_do_not_stop_it(bench):
    operation = VmSet(vmid=100, set={"onboot": "1"}, before={"onboot": None})
    plan = with_change(bench.plan(), "vm.100", operation=operation)
    only = tuple(c for c in plan.changes if c.id == "vm.100")
    plan = plan.model_copy(update={"changes": only, "stops_guests": (), "starts_guests": (), "gpus": ()})
    assert bench.apply(plan, stop_guests=False).status == "done"
    assert bench.host.guests[100].running
    assert bench.host.guests[100].values["onboot"] == "1"
    bench.rollback(stop_guests=False)
    assert bench.host.guests[100].running
    assert "onboot" not in bench.host.guests[100].values


def test_no_quorum(bench):
    plan = bench.plan()
    bench.host.quorate = False
    refused(bench, plan, PveError)


@pytest.mark.parametrize("key", ["cipassword", "sshkeys"])
def test_secrets_never_enter_a_run(bench, key):
    operation = VmSet(vmid=100, set={key: "hunter2"}, before={key: "old-secret"})
    error = refused(bench, with_change(bench.plan(), "vm.100", operation=operation), PvectlError)
    assert "hunter2" not in error.message
    assert "old-secret" not in error.message


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/etc/default/grub.d/../../shadow", "/etc/cron.d/x", "/etc/default/grub.d/x.cfg/y"]
)
def test_paths_of_a_plan_file_are_of_their_kind(bench, path):
    operation = FileWrite(path=path, content="x", expect=None)
    assert path in refused(bench, with_change(bench.plan(), "boot.cmdline", operation=operation), PvectlError).message


@pytest.mark.parametrize(
    "operation",
    [
        VmSet(vmid=100, set={"memory": "1"}, before={}),
        VmSet(vmid=100, set={"memory": "1"}, delete=("memory",), before={"memory": "4096"}),
    ],
)
def test_a_change_that_could_not_be_undone(bench, operation):
    refused(bench, with_change(bench.plan(), "vm.100", operation=operation), PvectlError)


def test_order_is_checked(bench):
    plan = with_change(bench.plan(), "boot.cmdline", depends_on=("boot.update",))
    assert "boot.cmdline comes before boot.update" in refused(bench, plan, PvectlError).message


def test_two_steps_of_one_name(bench):
    plan = with_change(bench.plan(), "binding.udev", id="boot.cmdline")
    assert "twice" in refused(bench, plan, PvectlError).message


def test_rights_are_checked_first(bench, monkeypatch):
    connect = bench.connect

    def as_user():
        session = connect()
        session.euid = 1000
        return session

    bench.connect = as_user
    refused(bench, bench.plan(), PrivilegeMissing)


def test_what_only_root_pam_may(bench):
    from provision.apply.link import Link
    from provision.apply.preflight import check_rights

    class Token:
        is_root = has_root = False

    session = bench.connect()
    plan = with_change(bench.plan(), "vm.100", privilege="ticket")
    changes = [c for c in plan.changes if c.id == "vm.100"]
    with pytest.raises(PrivilegeMissing, match="root@pam"):
        check_rights(changes, Link(session, Token(), bench.connect, lambda _: Token()))
    Token.has_root = True
    check_rights(changes, Link(session, Token(), bench.connect, lambda _: Token()))


def as_token(monkeypatch, permissions):
    monkeypatch.setattr(FakePve, "is_root", False)
    monkeypatch.setattr(FakePve, "permissions", permissions)


ENOUGH = {
    "/mapping/pci": ("Mapping.Modify", "Mapping.Use"),
    "/vms/100": ("VM.Config.HWType", "VM.Config.Memory", "VM.Config.Options", "VM.PowerMgmt"),
}


@pytest.mark.parametrize(
    ("path", "privilege", "named"),
    [
        ("/mapping/pci", "Mapping.Modify", "/mapping/pci"),
        ("/mapping/pci", "Mapping.Use", "/mapping/pci/gpu-0"),
        ("/vms/100", "VM.Config.Memory", "/vms/100"),
        ("/vms/100", "VM.PowerMgmt", "/vms/100"),
    ],
)
def test_a_privilege_that_the_token_lacks(bench, monkeypatch, path, privilege, named):
    held = {**ENOUGH, path: tuple(name for name in ENOUGH[path] if name != privilege)}
    as_token(monkeypatch, lambda _: held)
    error = refused(bench, bench.plan(), PrivilegeMissing)
    assert (error.exit_code, error.path, error.privilege) == (1, named, privilege)
    assert named in error.message
    assert privilege in error.message


def test_a_token_with_all_that_the_plan_needs(bench, monkeypatch):
    as_token(monkeypatch, lambda _: ENOUGH)
    assert bench.apply(bench.plan(), reboot=True).status == "done"


def test_where_proxmox_does_not_tell_the_privileges_apply_goes_on(bench, monkeypatch):
    def unknown(_):
        raise PveError("Unable to read the permissions of these credentials on pve1: status 501", status=501)

    as_token(monkeypatch, unknown)
    assert bench.apply(bench.plan(), reboot=True).status == "done"


def test_an_unfinished_run_is_not_run_over(bench):
    run = bench.apply(bench.plan()).run
    for plan in (bench.plan(), bench.plan().model_copy(update={"changes": (), "stops_guests": ()})):
        with pytest.raises(Refused) as caught:
            bench.apply(plan)
        assert run in caught.value.message
        assert f"pvectl apply --resume {run}" in caught.value.hint
        assert f"pvectl rollback {run}" in caught.value.hint


def test_a_plan_that_was_changed_on_the_host_is_not_resumed(bench):
    run = bench.apply(bench.plan()).run
    bench.host.files[f"/var/lib/pvectl/runs/{run}/plan.json"].data += b" "
    with pytest.raises(ApplyStopped, match="is not the plan that it began with"):
        bench.resume(reboot=True)


def test_nothing_secret_is_in_the_journal_or_plan(bench):
    bench.host.guests[100].values["cipassword"] = "correct-horse"
    run = bench.apply(bench.plan(), reboot=True).run
    bench.rollback(reboot=True)
    ours = [file.data for path, file in bench.host.files.items() if path.startswith("/var/lib/pvectl")]
    assert run is not None
    assert len(ours) > 5
    assert not any(b"correct-horse" in data for data in ours)


def test_a_reboot_is_never_a_step(bench):
    from provision.apply.actions import observe

    with pytest.raises(AssertionError):
        observe(ActionRun(name="reboot"), None)


def test_no_test_wrote_here():
    assert not Path("/var/lib/pvectl").exists()
