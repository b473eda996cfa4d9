"""A run that nothing disturbs: apply, reboot, resume, rollback, rollback of everything."""

from __future__ import annotations

import json

import pytest

from provision.errors import Refused

GRUB = "/etc/default/grub.d/pvectl.cfg"
HOME = "/var/lib/pvectl"


def test_apply_with_reboot_does_everything(bench):
    outcome = bench.apply(bench.plan(), reboot=True)
    assert outcome.status == "done"
    assert outcome.exit_code == 0
    assert outcome.next_command == "pvectl verify pve1"
    host = bench.host
    assert host.files[GRUB].data == b"iommu=pt\n"
    assert host.cmdline == "quiet iommu=pt"
    assert host.guests[100].running
    assert host.guests[100].values == {
        "name": "llm",
        "memory": "4096",
        "hostpci0": "mapping=gpu-0,pcie=1",
        "balloon": "0",
    }
    assert set(host.mappings) == {"pool", "gpu-0"}
    assert host.mappings["pool"][1] == "pvectl"
    assert f"{HOME}/lock" not in host.files
    assert len(outcome.steps) == 12  # ten changes, VM down, VM up


def test_apply_without_reboot_waits_with_exit_code_six(bench):
    outcome = bench.apply(bench.plan())
    assert (outcome.status, outcome.exit_code) == ("reboot-needed", 6)
    assert outcome.next_command == f"pvectl apply pve1 --resume {outcome.run} --reboot"
    assert not bench.host.guests[100].running
    assert bench.resume().exit_code == 6  # same boot
    assert bench.resume(reboot=True).exit_code == 0
    assert bench.host.guests[100].running


def test_resume_after_the_host_rebooted_by_itself(bench):
    bench.apply(bench.plan())
    bench.host.reboot()
    outcome = bench.resume()
    assert outcome.status == "done"
    assert bench.host.boots == 2


def test_identities_are_recorded(bench):
    bench.apply(bench.plan(), reboot=True)
    document = json.loads(bench.host.files[f"{HOME}/identity.json"].data)
    assert document["schema"] == "pvectl.identity/1"
    assert document["data"]["devices"]["0000:41:00.0"]["dsn"] == "0000000000000041"


def test_an_empty_plan_changes_nothing(bench):
    empty = bench.plan().model_copy(update={"changes": (), "stops_guests": (), "starts_guests": ()})
    before = bench.host.snapshot()
    outcome = bench.apply(empty)
    assert (outcome.status, outcome.exit_code, outcome.run) == ("nothing", 0, None)
    assert bench.ours() == []
    assert bench.host.snapshot() == before
    assert bench.asked == []


def test_rollback_restores_everything(bench):
    before = bench.host.snapshot()
    bench.apply(bench.plan(), reboot=True)
    outcome = bench.rollback(reboot=True)
    assert outcome.status == "done"
    assert bench.host.snapshot() == before
    assert bench.host.cmdline == "quiet"
    assert f"{HOME}/identity.json" not in bench.host.files
    assert bench.rollback().status == "nothing"


def test_rollback_without_reboot_says_so(bench):
    before = bench.host.snapshot()
    bench.apply(bench.plan(), reboot=True)
    outcome = bench.rollback()
    assert (outcome.status, outcome.exit_code, outcome.next_command) == ("reboot-needed", 6, "systemctl reboot")
    assert any("VM 100 ran before" in note for note in outcome.notes)
    assert bench.host.snapshot() == {**before, "running": set()}
    assert f"{HOME}/lock" not in bench.host.files


def test_rollback_of_what_was_never_booted_needs_no_reboot(bench):
    before = bench.host.snapshot()
    bench.apply(bench.plan())
    outcome = bench.rollback()
    assert outcome.status == "done"
    assert bench.host.boots == 1
    assert bench.host.snapshot() == before


def test_apply_again_after_rollback(bench):
    bench.apply(bench.plan(), reboot=True)
    planned = bench.host.snapshot()
    bench.rollback(reboot=True)
    assert bench.apply(bench.plan(), reboot=True).status == "done"
    assert bench.host.snapshot() == planned


def test_rollback_all_leaves_no_file_of_ours(bench):
    before = bench.host.snapshot()
    bench.apply(bench.plan(), reboot=True)
    bench.rollback(reboot=True)
    bench.apply(bench.plan(), reboot=True)
    outcome = bench.rollback_all(reboot=True)
    assert outcome.status == "done"
    assert bench.ours() == []
    assert bench.host.snapshot() == before
    assert bench.rollback_all().status == "nothing"


def test_rollback_all_without_reboot(bench):
    bench.apply(bench.plan(), reboot=True)
    outcome = bench.rollback_all()
    assert outcome.exit_code == 6
    assert bench.ours() == []
    assert any("VM 100" in note for note in outcome.notes)


def test_progress_says_what_it_waits_for(bench):
    bench.apply(bench.plan(), reboot=True)
    assert "rebooting root@pve1" in bench.said
    assert "do boot.cmdline" in bench.said


@pytest.mark.parametrize("verb", ["apply", "rollback", "rollback_all"])
def test_no_means_no(bench, verb):
    from provision.errors import ConsentNeeded

    if verb != "apply":
        bench.apply(bench.plan(), reboot=True)
    before, ours = bench.host.snapshot(), bench.ours()
    bench.answer = False
    with pytest.raises(ConsentNeeded):
        bench.apply(bench.plan()) if verb == "apply" else getattr(bench, verb)()
    assert bench.host.snapshot() == before
    assert bench.ours() == ours


def test_back_to_an_earlier_run_undoes_the_later_ones_newest_first(bench):
    """Files, a mapping that was deleted and options of a VM: as the earlier run left them."""
    first = bench.apply(bench.plan(), reboot=True).run
    between = bench.host.snapshot()
    from provision.plan.model import FileRemove, MappingDelete

    plan = bench.plan()
    done = []
    for change in (
        FileRemove(path="/etc/modprobe.d/vfio.conf", expect=bench.host._file("/etc/modprobe.d/vfio.conf").sha256),
        MappingDelete(id="pool", before=bench.host.mappings["pool"][0]),
    ):
        step = plan.changes[0].model_copy(update={"id": "later", "operation": change, "needs_reboot": False})
        later = {"changes": (step,), "gpus": (), "stops_guests": (), "starts_guests": ()}
        now = bench.plan().model_copy(update=later)
        done.append(bench.apply(now).run)
    outcome = bench.rollback_to(first)
    assert outcome.status == "done"
    assert bench.host.snapshot() == between
    assert f"Undo 2 runs on root@pve1 ({done[1]}, {done[0]})?" in bench.asked
    assert bench.rollback_to(first).status == "nothing"
    assert bench.rollback(reboot=True).status == "done"


def test_back_to_a_run_that_does_not_stand(bench):
    first = bench.apply(bench.plan(), reboot=True).run
    bench.rollback(reboot=True)
    with pytest.raises(Refused, match="it is no apply that stands complete"):
        bench.rollback_to(first)
