"""A one-shot boot entry: the loader takes the new command line once, and the confirmation makes it the default."""

from __future__ import annotations

import json

import pytest

from provision.apply.confirming import confirm_run
from provision.errors import ApplyStopped, PvectlError, Refused
from provision.plan.model import ActionRun, BootOnce

HOME = "/var/lib/pvectl"
GRUB = "/etc/default/grub.d/pvectl.cfg"
CUSTOM = "/boot/grub/custom.cfg"
GRUB_CFG = "/boot/grub/grub.cfg"
NEW = "BOOT_IMAGE=/vmlinuz quiet iommu=pt"
KILLED = -9
DUE = 15 * 60.0


@pytest.fixture
def bench(once_bench):
    return once_bench()


def run_of(bench) -> str:
    return min(p for p in bench.host.files if p.endswith("/journal.jsonl")).split("/")[-2]


def events(bench) -> list[dict]:
    return [json.loads(line)["data"] for line in bench.journal(run_of(bench)).splitlines()]


def told(bench) -> list[str]:
    return [event["did"] for event in events(bench) if event["event"] == "dead-man"]


def waiting(bench, **allow):
    assert bench.apply(bench.plan(), **allow).status == "reboot-needed"


def test_until_the_confirmation_the_default_is_the_old_one(bench):
    waiting(bench)
    host = bench.host
    assert CUSTOM in host.files
    assert host.next_entry() == "pvectl-once"
    assert GRUB not in host.files
    assert host.files[GRUB_CFG].data == b"linux quiet\n"
    host.reboot()
    assert host.cmdline == NEW
    assert host.next_entry() == ""
    host.reboot()
    assert host.cmdline == "quiet", "nobody confirmed: the loader is back by itself"


def test_the_confirmation_makes_it_the_default_and_takes_the_entry_away(bench):
    assert bench.apply(bench.plan(), reboot=True).status == "done"
    host = bench.host
    assert host.files[GRUB].data == b"iommu=pt\n"
    assert host.files[GRUB_CFG].data == b"linux quiet iommu=pt\n"
    assert CUSTOM not in host.files
    host.reboot()
    assert host.cmdline == "quiet iommu=pt"
    assert told(bench) == ["promoting", "confirmed"]
    order = [event["step"] for event in events(bench) if event["event"] == "receipt"]
    assert order.index("boot.once") > order.index("binding.initramfs"), "what boots then is complete"
    assert order.index("boot.cmdline") < order.index("boot.update") < order.index("boot.once.clear")


def test_the_receipt_says_what_the_loader_will_do(bench):
    waiting(bench)
    [receipt] = [e for e in events(bench) if e["event"] == "receipt" and e["step"] == "boot.once"]
    assert "takes the entry once" in receipt["note"]
    assert receipt["after"] == {**receipt["after"], "kind": "once", "armed": True}
    assert events(bench)[0]["dead_man"]["one_shot"] is True


def test_the_outcome_says_that_both_will_act(bench):
    outcome = bench.apply(bench.plan())
    [note] = outcome.notes
    assert "one-shot boot entry" in note
    assert "15 minutes after its boot" in note


def test_pvectl_confirm_makes_it_the_default_too(bench):
    waiting(bench)
    bench.host.reboot()
    assert confirm_run(None, bench.connect(), host="pve1").status == "confirmed"
    bench.host.reboot()
    assert bench.host.cmdline == "quiet iommu=pt"
    assert bench.resume().status == "done"


def test_the_host_that_confirms_by_itself_does_too(bench):
    file = type(bench.host.files["/etc/default/grub"])
    bench.host.files["/proc/net/route"] = file(
        b"Iface\tDestination\tGateway\nvmbr0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n"
        b"vmbr0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\n"
    )
    trie = b"Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.0.11\n        /32 host LOCAL\n"
    bench.host.files["/proc/net/fib_trie"] = file(trie)
    waiting(bench, confirm="local")
    bench.host.reboot()
    bench.host.tick(60)
    assert told(bench) == ["promoting", "confirmed"]
    bench.host.reboot()
    assert bench.host.cmdline == "quiet iommu=pt"


def test_in_the_boot_after_it_nobody_confirms_the_old_set_up(bench):
    file = type(bench.host.files["/etc/default/grub"])
    bench.host.files["/proc/net/route"] = file(
        b"Iface\tDestination\tGateway\nvmbr0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n"
        b"vmbr0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\n"
    )
    trie = b"Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.0.11\n        /32 host LOCAL\n"
    bench.host.files["/proc/net/fib_trie"] = file(trie)
    waiting(bench, confirm="local")
    bench.host.reboot()
    bench.host.reboot()
    bench.host.tick(60)
    assert told(bench) == []
    with pytest.raises(Refused, match="is back in the previous one"):
        confirm_run(None, bench.connect(), host="pve1")
    bench.host.tick(DUE)
    assert told(bench) == ["restored"], "the rest of the new set-up goes too"


def test_a_host_that_comes_back_with_the_old_command_line_is_told_and_tried_once_more(bench):
    """The new kernel did not come up, and whoever reset the machine got the default."""
    real = bench.host.reboot

    def hangs_and_is_reset() -> None:
        real()
        real()

    bench.host.reboot = hangs_and_is_reset
    with pytest.raises(ApplyStopped, match="came back with the previous kernel command line") as stopped:
        bench.apply(bench.plan(), reboot=True)
    assert f"--resume {run_of(bench)} --reboot" in stopped.value.hint
    assert bench.host.cmdline == "quiet"
    bench.host.reboot = real
    assert bench.resume(reboot=True).status == "done"
    assert bench.host.cmdline == NEW
    assert any(event.get("step") == "boot.once.again" for event in events(bench))


def test_resume_without_reboot_arms_it_again(bench):
    waiting(bench)
    bench.host.reboot()
    bench.host.reboot()
    assert bench.resume().status == "reboot-needed"
    assert bench.host.next_entry() == "pvectl-once"


def test_rollback_before_the_boot_takes_it_away(bench):
    original = bench.host.snapshot()
    waiting(bench)
    assert bench.rollback().status == "done"
    assert bench.host.next_entry() == ""
    assert bench.host.snapshot() == original


def test_rollback_in_the_one_shot_boot_needs_a_reboot(bench):
    original = bench.host.snapshot()
    waiting(bench)
    bench.host.reboot()
    assert bench.rollback(reboot=True).status == "done"
    assert bench.host.cmdline == "quiet"
    assert {**bench.host.snapshot(), "running": 0} == {**original, "running": 0}


def test_rollback_after_the_confirmation_restores_the_default(bench):
    original = bench.host.snapshot()
    bench.apply(bench.plan(), reboot=True)
    assert bench.rollback(reboot=True).status == "done"
    assert bench.host.cmdline == "quiet"
    assert bench.host.snapshot() == original


def test_unconfirmed_the_dead_man_takes_entry_and_files_back(bench):
    original = bench.host.snapshot()
    waiting(bench)
    bench.host.reboot()
    bench.host.tick(DUE)
    bench.host.tick(60)
    now = bench.host.snapshot()["files"]
    assert {p: f for p, f in now.items() if "/systemd/" not in p} == original["files"]
    assert bench.host.cmdline == "quiet"


def test_killed_at_any_command_of_the_confirmation_it_is_all_or_nothing(once_bench):
    deaths = 0
    for at in range(1, 14):
        bench = once_bench()
        waiting(bench)
        bench.host.reboot()
        if bench.host.confirmed_or_killed(f"{HOME}/runs/{run_of(bench)}", dies_at=at) == KILLED:
            deaths += 1
            bench.host.crash()
        assert bench.resume(reboot=True).status == "done", at
        bench.host.reboot()
        assert bench.host.cmdline == "quiet iommu=pt", at
        assert CUSTOM not in bench.host.files, at
    assert deaths >= 5


def test_a_confirmation_that_cannot_make_it_the_default_is_none(bench):
    from provision.remote.session import RunResult

    waiting(bench)
    bench.host.reboot()
    bench.host.grub_result = RunResult(argv=(), rc=1, stderr=b"no space left")
    with pytest.raises(ApplyStopped, match=r"update-grub: exit status 1: no space left"):
        confirm_run(None, bench.connect(), host="pve1")
    bench.host.grub_result = None
    bench.host.tick(DUE)
    assert bench.host.cmdline == "quiet"
    assert GRUB not in bench.host.files


def test_a_file_that_someone_edited_meanwhile_is_not_overwritten(bench):
    waiting(bench)
    bench.host.reboot()
    bench.host.files[GRUB] = type(bench.host.files[GRUB_CFG])(b"# by somebody\n")
    with pytest.raises(ApplyStopped, match="changed since the plan was made"):
        confirm_run(None, bench.connect(), host="pve1")
    assert bench.host.files[GRUB].data == b"# by somebody\n"


def test_a_custom_cfg_of_somebody_else_stays(bench):
    bench.host.files[CUSTOM] = type(bench.host.files[GRUB_CFG])(b"menuentry 'mine' {}\n")
    with pytest.raises(ApplyStopped, match="is there already and not from pvectl"):
        bench.apply(bench.plan())
    assert bench.rollback().status == "done"
    assert bench.host.files[CUSTOM].data == b"menuentry 'mine' {}\n"


def test_a_plan_file_holds_no_other_entry_and_no_other_steps(bench):
    plan = bench.plan()
    foreign = plan.changes[0].model_copy(
        update={"operation": BootOnce(loader="grub", content="menuentry 'x' {}", cmdline="")}
    )
    with pytest.raises(PvectlError, match="no boot entry of pvectl"):
        bench.apply(plan.model_copy(update={"changes": (foreign, *plan.changes[1:])}))
    stop = plan.changes[1].model_copy(
        update={"operation": ActionRun(name="vm-stop", vmid=100), "phase": "at-confirm", "id": "x"}
    )
    with pytest.raises(PvectlError, match="does by itself"):
        bench.apply(plan.model_copy(update={"changes": (*plan.changes, stop)}))
    with pytest.raises(PvectlError, match="does not ask for"):
        bench.apply(plan.model_copy(update={"confirm_within": None}))
