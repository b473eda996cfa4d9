"""In the middle: what stops a run, what it says, and that it can be undone from there."""

from __future__ import annotations

import json

import pytest

from provision.errors import ApplyStopped, ChangedHostKey, ConnectionRefused, Interrupted, Refused, StalePlan
from provision.pve.session import TaskResult
from provision.remote.session import RunResult

from .conftest import entry

GRUB = "/etc/default/grub.d/pvectl.cfg"
VFIO = "/etc/modprobe.d/vfio.conf"


def stopped(bench, **allow):
    before = bench.host.snapshot()
    with pytest.raises(ApplyStopped) as caught:
        bench.apply(bench.plan(), reboot=True, **allow)
    assert caught.value.exit_code == 5
    bench_run = json.loads(bench.host.files["/var/lib/pvectl/lock"].data)["run"]
    return caught.value, before, bench_run


def test_a_command_that_fails(bench):
    bench.host.grub_result = RunResult(argv=("update-grub",), rc=1, stderr=b"grub-probe: error: no device\n")
    error, before, run = stopped(bench)
    assert "exit status 1: grub-probe: error: no device" in error.message
    bench.host.grub_result = None
    bench.rollback(run)
    assert bench.host.snapshot() == before


def test_a_command_without_end(bench):
    bench.host.grub_result = RunResult(argv=("update-grub",), rc=-9, timed_out=True)
    assert "no end after 1800 seconds" in stopped(bench)[0].message


def test_a_skipped_esp_is_no_success(bench):
    warning = b"WARN: /dev/disk/by-uuid/AAAA-BBBB does not exist - clean '/etc/kernel/proxmox-boot-uuids'! - skipping\n"
    bench.host.grub_result = RunResult(argv=("update-grub",), rc=0, stderr=warning)
    error, _, _ = stopped(bench)
    assert "AAAA-BBBB" in error.message
    assert "proxmox-boot-tool clean" in error.hint
    bench.host.grub_result = None
    assert bench.resume(reboot=True).status == "done"


def test_a_guest_that_does_not_start(bench):
    bench.host.start_result = TaskResult(upid="U", ok=False, exitstatus="PCI device mapping invalid", log_tail=("x",))
    error, _, _ = stopped(bench)
    assert "PCI device mapping invalid" in error.message
    assert "log: x" in error.message
    bench.host.start_result = None
    assert bench.resume().status == "done"


def test_a_start_that_says_ok_and_leaves_it_down(bench):
    bench.host.start_result = TaskResult(upid="U", ok=True, exitstatus="OK")
    assert "it is stopped" in stopped(bench)[0].message


def test_groups_other_than_predicted(bench):
    bench.host.reboots_wrong = True
    error, before, run = stopped(bench)
    assert "0000:41:00.0 is in IOMMU group 10, predicted 20" in error.message
    assert "0000:41:00.0 has iommugroup 10, mapping gpu-0 has 20" in error.message
    assert not bench.host.guests[100].running
    bench.rollback(run, reboot=True)
    assert bench.host.snapshot() == before


def test_proxmox_own_check_is_asked_too(bench, monkeypatch):
    monkeypatch.setattr("provision.apply.course.confirm_groups", lambda *_: None)
    bench.host.reboots_wrong = True
    assert "Proxmox refuses" in stopped(bench)[0].message


def test_an_entry_that_only_the_user_can_decide_stops_nothing(bench):
    gone = entry("99", 7)
    bench.host.mappings["pool"] = ((gone, *bench.host.mappings["pool"][0]), "all of them")
    plan = bench.plan()
    valid = tuple(e for e in plan.expectations if e.subject != "mapping/pool")
    changes = tuple(with_entry(change, gone) if change.id == "mapping.pool" else change for change in plan.changes)
    plan = plan.model_copy(update={"expectations": valid, "changes": changes})
    assert bench.apply(plan, reboot=True).status == "done"
    assert bench.host.mappings["pool"][0] == (gone, entry("41", 20), entry("61", 21))


def with_entry(change, raw):
    operation = change.operation.model_copy(update={"entries": (raw, *change.operation.entries)})
    return change.model_copy(update={"operation": operation})


def test_someone_changes_an_object_between_two_steps(bench):
    update = bench.host.update_grub

    def and_more():
        update()
        bench.host.files[VFIO].data = b"someone else\n"

    bench.host.update_grub = and_more
    error, _, run = stopped(bench)
    assert "binding.vfio" in error.message
    assert "it changed since the plan was made" in error.message
    bench.host.update_grub = update
    bench.rollback(run)
    assert bench.host.files[VFIO].data == b"someone else\n"  # never touched by us
    assert GRUB not in bench.host.files


def test_a_step_in_a_third_state(bench):
    plan = bench.plan()
    write = next(n for n, call in enumerate(_calls(bench, plan), 1) if call == f"write {VFIO}")
    bench.broken(write, "controller dies before", lambda: bench.apply(plan, reboot=True))
    bench.host.files[VFIO].data = b"third\n"
    with pytest.raises(ApplyStopped, match="neither as before the step nor as after it"):
        bench.resume(reboot=True)
    with pytest.raises(StalePlan) as caught:
        bench.rollback()
    assert caught.value.moved == (f"{VFIO}: someone changed it since",)


def _calls(bench, plan):
    other = type(bench)()
    other.host.guests[100].running = True
    other.apply(plan, reboot=True)
    return other.host.calls


@pytest.mark.parametrize(
    ("touch", "named"),
    [
        (lambda h: setattr(h.files[GRUB], "data", b"x"), f"{GRUB}: someone changed it since"),
        (lambda h: setattr(h.files[GRUB], "mode", 0o600), f"{GRUB}: someone changed it since"),
        (lambda h: h.files.pop(VFIO), f"{VFIO}: someone changed it since"),
        (
            lambda h: h.mappings.update(pool=((h.mappings["pool"][0][0],), None)),
            "mapping/pool: someone changed it since",
        ),
        (lambda h: h.guests[100].values.update(balloon="512"), "vm/100 balloon: someone changed it since"),
        (lambda h: h.guests[101].values.update(hostpci3="mapping=gpu-0"), "mapping/gpu-0: VM 101 uses it in hostpci3"),
    ],
)
def test_rollback_names_what_someone_else_changed(bench, touch, named):
    bench.apply(bench.plan(), reboot=True)
    touch(bench.host)
    before, ours = bench.host.snapshot(), bench.ours()
    with pytest.raises(StalePlan) as caught:
        bench.rollback()
    assert caught.value.moved == (named,)
    assert caught.value.exit_code == 4
    assert bench.host.snapshot() == before
    assert bench.ours() == ours


def test_rollback_leaves_alone_what_the_run_did_not_touch(bench):
    bench.apply(bench.plan(), reboot=True)
    bench.host.guests[100].values["cores"] = "8"
    bench.host.mappings["later"] = (("id=1:2,node=pve2,path=0000:01:00.0",), None)
    bench.rollback(reboot=True)
    assert bench.host.guests[100].values["cores"] == "8"
    assert "later" in bench.host.mappings


def test_a_damaged_backup_is_not_written_back(bench):
    run = bench.apply(bench.plan(), reboot=True).run
    backup = next(p for p in bench.host.files if p.startswith(f"/var/lib/pvectl/runs/{run}/backup/") and "vfio" in p)
    bench.host.files[backup].data = b""
    with pytest.raises(ApplyStopped, match="is damaged or gone"):
        bench.rollback()


def test_a_later_run_is_undone_first(bench):
    first = bench.apply(bench.plan(), reboot=True).run
    later = bench.plan()
    write = next(c for c in later.changes if c.id == "binding.vfio")
    operation = write.operation.model_copy(update={"content": "third\n"})
    later = later.model_copy(
        update={
            "changes": (write.model_copy(update={"operation": operation, "needs_reboot": False}),),
            "stops_guests": (),
            "starts_guests": (),
            "gpus": (),
        }
    )
    second = bench.apply(later).run
    with pytest.raises(StalePlan):
        bench.rollback(first)
    assert bench.rollback().status == "done"
    assert bench.rollback(first, reboot=True).status == "done"
    with pytest.raises(Refused, match="rolled back before"):
        bench.rollback(second)
    with pytest.raises(Refused, match="it was rolled back"):
        bench.resume(first)


def test_a_rollback_is_not_undone(bench):
    bench.apply(bench.plan(), reboot=True)
    run = bench.rollback(reboot=True).run
    with pytest.raises(Refused, match="it is itself a rollback"):
        bench.rollback(run)


def test_a_run_that_is_being_undone_is_not_resumed(bench):
    run = bench.apply(bench.plan()).run
    bench.broken(40, "controller dies before", bench.rollback)
    with pytest.raises(Refused, match="is about to undo it"):
        bench.resume(run)
    assert bench.resume().kind == "rollback"


def test_rollback_asks_before_it_stops_a_guest(bench):
    from provision.errors import ConsentNeeded

    bench.apply(bench.plan(), reboot=True)
    with pytest.raises(ConsentNeeded, match="VM 100"):
        bench.rollback(stop_guests=False)


def test_no_such_run(bench):
    from provision.errors import PvectlError

    with pytest.raises(PvectlError, match="there is no such run"):
        bench.resume("20200101T000000Z-000000")
    assert bench.resume().status == "nothing"
    run = bench.apply(bench.plan(), reboot=True).run
    assert bench.resume(run).notes == ("this run is done",)


def test_another_mapping_changes_meanwhile(bench, monkeypatch):
    """The digest covers the whole file: a change of another mapping is no reason to stop."""
    pve = type(bench._common({})["connect_pve"](None))
    update, others = pve.mapping_update, []

    def busy(self, name, entries, digest, description=None):
        if len(others) < limit:
            others.append(1)
            bench.host.mappings["other"] = ((f"id=1:{len(others)},node=pve2,path=0000:01:00.0",), None)
        return update(self, name, entries, digest, description)

    monkeypatch.setattr(pve, "mapping_update", busy)
    limit = 2
    assert bench.apply(bench.plan(), reboot=True).status == "done"
    bench.rollback(reboot=True)
    others.clear()
    limit = 3
    assert "detected modified configuration" in stopped(bench)[0].message


def test_our_mapping_changes_between_two_looks(bench, monkeypatch):
    pve = type(bench._common({})["connect_pve"](None))
    mappings, looks = pve.mappings, []

    def late(self, **check):
        looks.append(1)
        if len(looks) == 3:  # observed, acted and read back for gpu-0 come before
            bench.host.mappings["gpu-0"] = (("id=1:2,node=pve2,path=0000:01:00.0",), None)
        return mappings(self, **check)

    monkeypatch.setattr(pve, "mappings", late)
    assert "does not read back as it was written" in stopped(bench)[0].message
    monkeypatch.undo()
    looks.clear()


# --- the reboot ---


def test_a_host_that_does_not_come_back(bench):
    def never():
        raise ConnectionRefused("Unable to reach pve1: refused")

    connect, first = bench.connect, []

    def once():
        if first:
            never()
        first.append(1)
        return connect()

    bench.connect = once
    error, _, run = stopped(bench)
    assert "refused" in error.message
    assert f"pvectl apply pve1 --resume {run}" in error.hint
    assert any(line.startswith("waiting for the new boot of root@pve1, 0 of 2400 s") for line in bench.said)
    bench.connect = connect
    assert bench.resume().status == "done"
    assert bench.host.boots == 2


def test_a_changed_host_key_after_the_reboot_stops_at_once(bench):
    connect, first = bench.connect, []

    def once():
        if first:
            raise ChangedHostKey("Unable to trust pve1: its host key changed")
        first.append(1)
        return connect()

    bench.connect = once
    assert "host key changed" in stopped(bench)[0].message
    assert bench.host.monotonic == 0


def test_a_host_that_takes_its_time(bench):
    reboot, connect = bench.host.reboot, bench.connect
    waits = []

    def slow():
        reboot()
        waits.extend([1, 1, 1])

    def patient():
        if waits:
            waits.pop()
            raise ConnectionRefused("Unable to reach pve1: refused")
        return connect()

    bench.host.reboot, bench.connect = slow, patient
    assert bench.apply(bench.plan(), reboot=True).status == "done"
    assert sum("waiting for the new boot" in line for line in bench.said) == 1  # the same cause is said once in a while
    assert bench.host.monotonic == 1.5


def test_the_old_boot_still_answers(bench):
    late = []
    reboot = bench.host.reboot
    bench.host.reboot = lambda: late.append(1)
    connect = bench.connect

    def then():
        if late and late.append(1) is None and len(late) == 4:
            reboot()
        return connect()

    bench.connect = then
    assert bench.apply(bench.plan(), reboot=True).status == "done"
    assert any("it still runs the old boot" in line for line in bench.said)


def test_quorum_comes_after_the_api(bench):
    reboot = bench.host.reboot

    def alone():
        reboot()
        bench.host.quorate = False

    bench.host.reboot = alone
    seams = bench.seams

    def patched():
        made = seams()
        sleep = made.sleep

        def until(seconds):
            sleep(seconds)
            bench.host.quorate = bench.host.monotonic > 100

        object.__setattr__(made, "sleep", until)
        return made

    bench.seams = patched
    assert bench.apply(bench.plan(), reboot=True).status == "done"
    assert any("no quorum" in line for line in bench.said)


def test_systemctl_refuses_and_proxmox_reboots(bench, monkeypatch):
    session = type(bench.connect())
    run = session._run

    def refuse(self, argv):
        return RunResult(argv=argv, rc=1, stderr=b"inhibited") if argv[0] == "systemctl" else run(self, argv)

    monkeypatch.setattr(session, "_run", refuse)
    assert bench.apply(bench.plan(), reboot=True).status == "done"
    assert any("inhibited" in line for line in bench.said)


# --- Ctrl-C ---


def test_ctrl_c_between_any_two_steps(fresh_bench):
    reference = fresh_bench()
    reference.apply(reference.plan(), reboot=True)
    planned = reference.host.snapshot()
    stops = 0
    for after in range(1, 15):
        bench = fresh_bench()
        bench.interrupted = lambda b=bench, n=after: (
            sum(line.startswith(("do ", "Shut", "Start")) for line in b.said) >= n
        )
        stops += _is_interrupted(bench)
        bench.interrupted = lambda: False
        bench.resume(reboot=True)
        assert bench.host.snapshot() == planned
    assert stops == 11


def _is_interrupted(bench) -> bool:
    try:
        bench.apply(bench.plan(), reboot=True)
    except Interrupted as stopped:
        error = stopped
    else:
        return False
    assert error.exit_code == 130
    assert "pvectl apply pve1 --resume" in error.hint
    return True


def test_ctrl_c_twice(bench):
    bench.host.update_grub = lambda: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(Interrupted) as caught:
        bench.apply(bench.plan(), reboot=True)
    assert "interrupted" in caught.value.message
    del bench.host.update_grub
    assert bench.resume(reboot=True).status == "done"


def test_ctrl_c_that_also_took_the_local_agent(bench):
    plan = bench.plan()
    asked = []
    bench.interrupted = lambda: bool(bench.host.fuse and bench.host.fuse.blown) or bool(asked)
    result = bench.broken(60, "connection cut before", lambda: bench.apply(plan, reboot=True))
    assert isinstance(result, Interrupted)
