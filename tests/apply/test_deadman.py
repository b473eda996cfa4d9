"""The dead-man: armed before the boot set-up changes, confirmed after the boot, and what it does where nobody does."""

from __future__ import annotations

import json

import pytest

from provision.apply import deadman
from provision.apply.confirming import confirm_run
from provision.errors import ApplyStopped, Refused
from provision.plan.model import Expectation

HOME = "/var/lib/pvectl"
SYSTEM = "/etc/systemd/system"
WANT = f"{SYSTEM}/timers.target.wants/pvectl-deadman.timer"
SERVICE = f"{SYSTEM}/pvectl-deadman.service"
MINUTES = 15
KILLED = -9
DUE = MINUTES * 60.0


def guarded(bench):
    return bench.plan().model_copy(update={"confirm_within": MINUTES})


def run_of(bench) -> str:
    paths = [p for p in bench.host.files if p.endswith("/journal.jsonl")]
    return min(paths).split("/")[-2]


def events(bench, run=None) -> list[dict]:
    return [json.loads(line)["data"] for line in bench.journal(run or run_of(bench)).splitlines()]


def told(bench) -> list[str]:
    return [event["did"] for event in events(bench) if event["event"] == "dead-man"]


def waiting(bench, **allow):
    """Bring a bench to where the new set-up is booted and nobody has come back yet."""
    assert bench.apply(guarded(bench), **allow).status == "reboot-needed"
    bench.host.reboot()


def test_it_is_armed_before_anything_that_a_boot_reads_and_gone_after_the_confirmation(bench):
    assert bench.apply(guarded(bench), reboot=True).status == "done"
    steps = [event["step"] for event in events(bench) if event["event"] == "intent"]
    assert steps.index("dead-man.arm") < steps.index("boot.cmdline")
    assert told(bench) == ["confirmed"]
    assert not [path for path in bench.host.files if "deadman" in path and not path.startswith(HOME)]
    assert WANT not in bench.host.files


def test_a_plan_without_a_boot_change_has_none(bench):
    bench.apply(bench.plan(), reboot=True)
    assert not [path for path in bench.host.files if "deadman" in path]


def test_before_the_deadline_it_does_nothing(bench):
    waiting(bench)
    before = bench.host.snapshot()
    assert bench.host.tick(DUE - 1) == 0
    assert bench.host.snapshot() == before
    assert told(bench) == []


def test_in_the_boot_of_the_installation_it_does_nothing(bench):
    bench.apply(guarded(bench))
    before = bench.host.snapshot()
    assert bench.host.tick(100 * DUE) == 0
    assert bench.host.snapshot() == before


def test_unconfirmed_it_restores_files_and_boot_loader_and_reboots_once(bench):
    original = bench.host.snapshot()
    waiting(bench)
    assert bench.host.cmdline == "quiet iommu=pt"
    bench.host.tick(DUE)
    assert bench.host.boots == 3
    assert bench.host.cmdline == "quiet"
    now = bench.host.snapshot()["files"]
    assert {p: f for p, f in now.items() if "/systemd/" not in p} == original["files"]
    for _ in range(3):
        bench.host.tick(60)
        bench.host.tick(DUE)
    assert bench.host.boots == 3, "it reboots once"
    assert bench.host.snapshot()["mappings"] == original["mappings"] | {"gpu-0": bench.host.mappings["gpu-0"]}
    assert told(bench) == ["restored", "mappings"]
    assert "mappings that VMs use by now stay: gpu-0" in str(events(bench))
    assert WANT not in bench.host.files


def test_after_it_acted_nobody_goes_on_and_rollback_undoes_the_rest(bench):
    original = bench.host.snapshot()
    waiting(bench)
    bench.host.tick(DUE)
    bench.host.tick(60)
    with pytest.raises(ApplyStopped, match=r"dead-man acted: the previous boot set-up is restored") as stopped:
        bench.resume(reboot=True)
    assert f"pvectl rollback {run_of(bench)}" in stopped.value.hint
    assert bench.rollback().status == "done", "the previous set-up runs already: no reboot"
    assert bench.host.snapshot() == original


def test_without_quorum_the_mappings_wait(bench):
    waiting(bench)
    bench.host.tick(DUE)
    bench.host.quorate = False
    bench.host.tick(60)
    assert told(bench) == ["restored"]
    bench.host.quorate = True
    bench.host.tick(90)
    assert told(bench) == ["restored", "mappings"]


def test_killed_at_any_command_it_goes_on_at_the_next_tick(fresh_bench):
    deaths = 0
    for at in range(1, 20):
        bench = fresh_bench()
        original = bench.host.snapshot()
        waiting(bench)
        if bench.host.tick(DUE, dies_at=at) == KILLED:
            deaths += 1
            bench.host.crash()
        for _ in range(4):
            bench.host.tick(DUE)
        assert bench.host.cmdline == "quiet", at
        assert bench.rollback(reboot=True).status == "done"
        assert bench.host.snapshot()["files"] == original["files"], at
        assert bench.host.snapshot()["mappings"] == original["mappings"], at
    assert deaths >= 5


def test_a_generator_that_fails_is_told_and_tried_again(bench):
    from provision.remote.session import RunResult

    waiting(bench)
    bench.host.grub_result = RunResult(argv=(), rc=1, stderr=b"no space left")
    assert bench.host.tick(DUE) == 1
    assert bench.host.boots == 2, "a reboot would change nothing"
    assert told(bench) == ["failed"]
    bench.host.grub_result = None
    bench.host.tick(DUE + 30)
    assert told(bench) == ["failed", "restored"]
    assert bench.host.cmdline == "quiet"


def test_an_edit_by_someone_else_is_kept_beside_the_backups(bench):
    waiting(bench)
    edited = "/etc/modprobe.d/vfio.conf"
    bench.host.files[edited].data = b"# by somebody\n"
    bench.host.tick(DUE)
    kept = f"{HOME}/runs/{run_of(bench)}/backup/foreign-vfio.conf"
    assert bench.host.files[kept].data == b"# by somebody\n"
    assert bench.host.files[edited].data == b"# by hand \xff\n"
    assert kept in str(events(bench))


def test_confirm_keeps_the_set_up_whatever_holds(bench):
    waiting(bench)
    outcome = confirm_run(None, bench.connect(), host="pve1")
    assert (outcome.status, outcome.exit_code) == ("confirmed", 0)
    assert confirm_run(None, bench.connect(), host="pve1").status == "confirmed", "twice is no harm"
    bench.host.tick(DUE)
    assert bench.host.boots == 2
    assert bench.resume().status == "done"
    assert told(bench) == ["confirmed"]
    assert confirm_run(None, bench.connect(), host="pve1").status == "nothing"


def test_confirm_before_the_boot_is_refused(bench):
    bench.apply(guarded(bench))
    with pytest.raises(Refused, match="has not booted the new set-up"):
        confirm_run(None, bench.connect(), host="pve1")


def test_confirm_too_late(bench):
    waiting(bench)
    bench.host.tick(DUE)
    with pytest.raises(ApplyStopped, match="nobody confirmed the new boot set-up within 15 minutes"):
        confirm_run(None, bench.connect(), host="pve1")


def test_a_boot_that_is_not_as_planned_is_not_confirmed(bench):
    plan = guarded(bench)
    wanted = Expectation(check="cmdline", subject="host", expected="iommu=pt !quiet")
    with pytest.raises(ApplyStopped, match=r"still has quiet; the new boot set-up is not confirmed") as stopped:
        bench.apply(plan.model_copy(update={"expectations": (wanted,)}), reboot=True)
    assert "15 minutes after its boot" in stopped.value.hint
    assert "pvectl confirm" in stopped.value.hint
    assert told(bench) == []
    bench.host.tick(DUE)
    assert bench.host.cmdline == "quiet"


@pytest.mark.parametrize(
    ("check", "subject", "expected", "cause"),
    [
        ("iommu-on", "host", "on", "the IOMMU is off"),
        ("driver", "0000:41:00.0", "vfio-pci", "is unknown|bound to"),
        ("driver", "0000:99:00.0", "vfio-pci", "is not there"),
    ],
)
def test_what_is_not_known_or_wrong_is_no_pass(bench, check, subject, expected, cause):
    from provision.apply.expectations import unmet

    model = bench.host.model()
    model = model.model_copy(update={"iommu": model.iommu.model_copy(update={"units": ()})})
    plan = guarded(bench).model_copy(
        update={"expectations": (Expectation(check=check, subject=subject, expected=expected),)}
    )
    [line] = unmet(plan, model)
    import re

    assert re.search(cause, line)


def test_the_controller_that_comes_back_in_the_boot_after_the_dead_man_stops(bench):
    """It waited through both boots: it must not take the second for the new set-up."""
    plan = guarded(bench)
    real = bench.host.reboot

    def twice() -> None:
        real()
        if bench.host.boots == 2:
            bench.host.tick(DUE)

    bench.host.reboot = twice
    with pytest.raises(ApplyStopped, match="its dead-man acted"):
        bench.apply(plan, reboot=True)
    assert bench.host.cmdline == "quiet"


ROUTE = (
    b"Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
    b"vmbr0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
    b"vmbr0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
)
TRIE = b"Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.0.11\n        /32 host LOCAL\n"
TRIE += b"     |-- 127.0.0.1\n        /32 host LOCAL\n"


@pytest.mark.parametrize("has_network", [True, False])
def test_the_host_confirms_by_itself_where_address_and_gateway_answer(bench, has_network):
    file = type(bench.host.files["/etc/default/grub"])
    bench.host.files["/proc/net/route"], bench.host.files["/proc/net/fib_trie"] = file(ROUTE), file(TRIE)
    waiting(bench, confirm="local")
    assert events(bench)[0]["dead_man"]["local"] == {"address": "10.0.0.11", "gateway": "10.0.0.1"}
    bench.host.has_network = has_network
    bench.host.tick(60)
    bench.host.tick(DUE)
    assert told(bench) == (["confirmed"] if has_network else ["restored"])
    assert bench.host.boots == (2 if has_network else 3)


def test_confirm_local_needs_a_route(bench):
    with pytest.raises(Refused, match="no IPv4 default route"):
        bench.apply(guarded(bench), confirm="local")
    assert bench.ours() == []


def test_the_decision_is_made_once(tmp_path):
    from provision.apply import deadman_program as program

    folder = tmp_path / "var/lib/pvectl/runs/r"
    folder.mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("b\n")
    (folder / "journal.jsonl").write_text("")
    run = program.Run(program.Host(str(tmp_path), program.run_child, program.HostNetwork()), "/var/lib/pvectl/runs/r")
    assert run.decided() == ""
    assert [run.decide("confirmed"), run.decide("fired")] == ["confirmed", "confirmed"]
    assert [path.name for path in folder.iterdir() if path.name != "journal.jsonl"] == ["deadman.decided"]


def test_the_program_needs_nothing_but_the_standard_library():
    import ast
    import sys

    tree = ast.parse(deadman.program())
    names = {
        alias.name.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    names |= {(node.module or "").partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= set(sys.stdlib_module_names)


def test_real_commands_run_and_are_missed():
    from provision.apply.deadman_program import run_child

    assert run_child(("true",), b"", 10, {})[0] == 0
    assert run_child(("no-such-command-here",), b"", 10, {})[0] == 127
    assert run_child(("sleep", "5"), b"", 0.05, {})[3]


def test_rollback_before_the_boot_takes_the_dead_man_away(bench):
    original = bench.host.snapshot()
    bench.apply(guarded(bench))
    assert WANT in bench.host.files
    assert bench.rollback().status == "done"
    assert bench.host.snapshot() == original
