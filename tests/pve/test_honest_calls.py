"""Calls that say what happened: one test for each clause, over HTTPS and in the node's shell."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from provision.errors import GuestLocked, PveError, StaleDigest, TaskFailed
from provision.pve.answers import Answer, lock_of, refusal
from provision.pve.objects import PveObjects
from provision.pve.session import TaskResult
from provision.pve.start_timeout import start_timeout_of
from provision.pve.task_text import task_failure, warnings_in, whole_error
from provision.pve.tasks import Clock

from .two_ways import RUNNING, Double, InTurn, Refuse, Say, Silence, ended, over_https, over_shell, task, task_table

START = "create /nodes/pve1/qemu/100/status/start"
CONFIG, PENDING = "get /nodes/pve1/qemu/100/config", "get /nodes/pve1/qemu/100/pending"
CURRENT = "get /nodes/pve1/qemu/100/status/current"
TASKS = "get /nodes/pve1/tasks"
PUT = "set /nodes/pve1/qemu/100/config"
ENTRY = "id=10de:2bb5,iommugroup=12,node=pve1,path=0000:41:00.0,subsystem-id=10de:204e"

Make = Callable[[dict[str, Any]], tuple[PveObjects, Double]]


@pytest.fixture(params=["https", "shell"])
def open_(request: pytest.FixtureRequest, api: Any, clock: Clock, told: list[str]) -> Make:
    reply = sys.modules[type(api).__module__].Reply

    def make(table: dict[str, Any]) -> tuple[PveObjects, Double]:
        double = Double(table)
        if request.param == "https":
            return over_https(double, api, reply, clock, told.append), double
        return over_shell(double, clock, told.append), double

    return make


@pytest.fixture
def told() -> list[str]:
    return []


def started(upid: str, *statuses: dict[str, Any], log: tuple[str, ...] = ("TASK OK",)) -> dict[str, Any]:
    return {START: Say(upid, log=log[:1]), **task_table(upid, *statuses, log=log)}


# --- tasks are followed to their end ---------------------------------------------------------------------------


def test_a_task_is_polled_to_its_end_with_progress(open_: Make) -> None:
    log = ("swtpm_setup: done", "generating cloud-init ISO", "TASK OK")
    session, double = open_(started(task("qmstart"), RUNNING, RUNNING, ended("OK"), log=log))
    lines: list[str] = []
    result = session.vm_start(100, timeout=60, progress=lines.append)
    assert result.ok
    assert lines == list(log), "each line once"
    assert double.count("get", f"/nodes/pve1/tasks/{task('qmstart')}/status") == 3


def test_a_long_log_is_read_to_its_end(open_: Make) -> None:
    log = tuple(f"transferred {n} GiB" for n in range(1200))
    session, _ = open_(started(task("qmstart"), ended("OK"), log=log))
    lines: list[str] = []
    assert session.vm_start(100, timeout=60, progress=lines.append).ok
    assert lines == list(log)


def test_a_task_that_failed_is_no_success_and_tells_the_end_of_its_log(open_: Make) -> None:
    log = (
        "kvm: -device vfio-pci,host=0000:41:00.0: vfio 0000:41:00.0: failed to open /dev/vfio/12: Device busy",
        "TASK ERROR: start failed: QEMU exited with code 1",
    )
    exitstatus = "start failed: QEMU exited with code 1"
    table = started(task("qmstart"), ended(exitstatus), log=log)
    table[START] = Say(task("qmstart"), log=log[:1], error=f"{exitstatus}\n")
    result = open_(table)[0].vm_start(100, timeout=60)
    assert (result.ok, result.exitstatus) == (False, exitstatus)
    error = task_failure("start VM 100", "pve1", result)
    assert "Device busy" in error.message
    assert error.message.startswith(f"Unable to start VM 100 on pve1: {exitstatus}")


def test_an_error_is_completed_from_the_log(open_: Make) -> None:
    log = ("trying", "TASK ERROR: error with cfs lock 'storage-nfs':", "unable to create image:", "no space left")
    session, _ = open_(started(task("qmstart"), ended("error with cfs lock 'storage-nfs':"), log=log))
    result = session.vm_start(100, timeout=60)
    assert result.problem.splitlines() == [
        "error with cfs lock 'storage-nfs':",
        "unable to create image:",
        "no space left",
    ]
    assert "unable to create image:; no space left (log: trying)" in task_failure("x", "pve1", result).message


def test_warnings_are_success_and_are_shown(open_: Make) -> None:
    log = ("WARN: no efidisk configured! Using temporary efivars disk.", "TASK WARNINGS: 1")
    session, _ = open_(started(task("qmstart"), ended("WARNINGS: 1"), log=log))
    lines: list[str] = []
    result = session.vm_start(100, timeout=60, progress=lines.append)
    assert result.ok
    assert result.warnings == ("no efidisk configured! Using temporary efivars disk.",)
    assert lines[-1].startswith("done, but Proxmox warns (WARNINGS: 1): no efidisk")


@pytest.mark.parametrize("exitstatus", ["unexpected status", "received interrupt", "got timeout"])
def test_everything_else_is_a_failure(open_: Make, exitstatus: str) -> None:
    result = open_(started(task("qmstart"), ended(exitstatus), log=()))[0].vm_start(100, timeout=60)
    assert (result.ok, result.problem) == (False, exitstatus)


def test_a_task_that_does_not_end_is_said_to_go_on(open_: Make) -> None:
    with pytest.raises(TaskFailed, match="not ended within 60 s") as caught:
        open_(started(task("qmstart"), RUNNING, log=()))[0].vm_start(100, timeout=60)
    assert "it goes on by itself" in caught.value.hint


def test_texts_of_tasks() -> None:
    assert whole_error("first", ()) == "first"
    assert whole_error("first", ("TASK ERROR: ",)) == "first"
    assert warnings_in(("WARN: a", "warning: b", " WARN: c")) == ("a",)
    ok = TaskResult(upid="x", ok=True, exitstatus="OK")
    assert ok.problem == ""
    bare = TaskResult(upid="x", ok=False, exitstatus="broken")
    assert task_failure("try", "pve1", bare).message == "Unable to try on pve1: broken"
    assert "repair what the message names" in task_failure("try", "pve1", bare).hint


# --- digests ---------------------------------------------------------------------------------------------------


def test_every_write_that_can_carry_a_digest_does(open_: Make) -> None:
    upid = task("resize")
    table = {
        PUT: None,
        CONFIG: {"scsi0": "lvm:vm-100-disk-0,size=4G", "digest": "abc"},
        PENDING: [],
        "set /cluster/mapping/pci/gpu-0": None,
        "set /nodes/pve1/qemu/100/resize": Say(upid),
        **task_table(upid, ended("OK")),
    }
    session, double = open_(table)
    session.vm_set(100, {"cores": "2"}, (), "abc")
    session.mapping_update("gpu-0", (ENTRY,), "def")
    session.vm_resize(100, "scsi0", "64G", progress=lambda _: None)
    assert [params["digest"] for _, _, params in double.writes()] == [["abc"], ["def"], ["abc"]]


def test_an_empty_digest_is_refused_before_anything_is_sent(open_: Make) -> None:
    session, double = open_({})
    with pytest.raises(PveError, match="no digest"):
        session.vm_set(100, {"cores": "2"}, (), "")
    with pytest.raises(PveError, match="no digest"):
        session.mapping_update("gpu-0", (ENTRY,), "")
    assert double.asked == []


@pytest.mark.parametrize(
    "text",
    [
        "checksum mismatch (file change by other user?)",
        "update hardware mapping failed: detected modified configuration - file changed by other user? Try again.",
    ],
)
def test_a_stale_digest_in_both_wordings(open_: Make, text: str) -> None:
    session, _ = open_({PUT: Refuse(text), "set /cluster/mapping/pci/gpu-0": Refuse(text)})
    with pytest.raises(StaleDigest):
        session.vm_set(100, {"cores": "2"}, (), "old")
    with pytest.raises(StaleDigest):
        session.mapping_update("gpu-0", (ENTRY,), "old")


# --- a refused write is not atomic -----------------------------------------------------------------------------


def test_what_a_refused_write_left_is_read_and_named(open_: Make) -> None:
    pending = [{"key": "memory", "value": "256", "pending": "300"}, {"key": "args", "value": "-x", "delete": 1}]
    refused = Refuse("only root can set 'hostpci1' config for non-mapped devices")
    session, double = open_({PUT: refused, CONFIG: {"digest": "d"}, PENDING: pending})
    with pytest.raises(PveError, match="left pending: args, memory") as caught:
        session.vm_set(100, {"hostpci1": "0000:41:00.0"}, (), "d")
    assert "qm set 100 --revert args,memory" in caught.value.hint
    assert double.count("get", "/nodes/pve1/qemu/100/pending") == 1


def test_risky_options_go_alone(open_: Make) -> None:
    session, double = open_({PUT: None, CONFIG: {"digest": "d"}, PENDING: []})
    session.vm_set(100, {"hostpci0": "mapping=a", "cores": "2", "memory": "512", "cpu": "host"}, (), "d")
    sent = [sorted({*params} - {"digest"}) for _, _, params in double.writes()]
    root = [["cores", "cpu", "hostpci0", "memory"]]
    assert sent == ([["cpu"], ["hostpci0"], ["cores", "memory"]] if not session.is_root else root)


# --- no answer is no failure -----------------------------------------------------------------------------------


def test_a_start_without_an_answer_is_followed_by_its_task(open_: Make) -> None:
    upid = task("qmstart")
    rows = InTurn(Silence(), [], [{"type": "qmstop", "upid": task("qmstop")}, {"type": "qmstart", "upid": upid}])
    table = {START: Silence(), TASKS: rows, CURRENT: {"status": "stopped"}, **task_table(upid, RUNNING, ended("OK"))}
    session, double = open_(table)
    assert session.vm_start(100, timeout=60).upid == upid
    assert double.count("create", "/nodes/pve1/qemu/100/status/start") == 1, "never asked twice"
    asked = [params for _, path, params in double.asked if path == "/nodes/pve1/tasks"]
    assert asked[-1] == {"vmid": ["100"], "source": ["active"]}


def test_a_start_without_an_answer_that_has_ended_is_seen_by_the_vm(open_: Make) -> None:
    table = {START: Silence(), TASKS: [], CURRENT: InTurn({"status": "stopped"}, {"status": "running"})}
    assert open_(table)[0].vm_start(100, timeout=60).ok


def test_a_start_that_nobody_saw_is_not_said_to_be_done(open_: Make, clock: Clock) -> None:
    table = {START: Silence(), TASKS: [], CURRENT: {"status": "stopped"}}
    with pytest.raises(PveError, match="no task of it was seen") as caught:
        open_(table)[0].vm_start(100, timeout=60)
    assert clock.now() >= 60
    assert "--vmid 100" in caught.value.hint


@pytest.mark.parametrize("verb", ["create", "destroy", "resize", "shutdown"])
def test_no_other_task_is_lost_either(open_: Make, verb: str) -> None:
    calls: dict[str, tuple[str, Callable[[PveObjects], TaskResult], str]] = {
        "create": ("create /nodes/pve1/qemu", lambda s: s.vm_create(100, {"name": "n"}, progress=print), "qmcreate"),
        "destroy": ("delete /nodes/pve1/qemu/100", lambda s: s.vm_destroy(100, progress=print), "qmdestroy"),
        "resize": (
            "set /nodes/pve1/qemu/100/resize",
            lambda s: s.vm_resize(100, "scsi0", "8G", progress=print),
            "resize",
        ),
        "shutdown": (
            "create /nodes/pve1/qemu/100/status/shutdown",
            lambda s: s.vm_shutdown(100, timeout=9),
            "qmshutdown",
        ),
    }
    key, call, kind = calls[verb]
    table = {key: Silence(), TASKS: [{"type": kind, "upid": task(kind)}], CONFIG: {"digest": "d"}, PENDING: []}
    session, _ = open_({**table, **task_table(task(kind), ended("OK"))})
    assert call(session).upid == task(kind)


@pytest.mark.parametrize(("vms", "config"), [([{"vmid": 100}], {"scsi0": "l:v,size=8192M", "digest": "d"})])
def test_work_that_is_done_needs_no_task(open_: Make, vms: list[Any], config: dict[str, str]) -> None:
    table = {TASKS: [], "get /nodes/pve1/qemu": vms, CONFIG: config, PENDING: []}
    table |= {"create /nodes/pve1/qemu": Silence(), "set /nodes/pve1/qemu/100/resize": Silence()}
    session, double = open_({**table, "delete /nodes/pve1/qemu/100": Silence()})
    assert session.vm_create(100, {}, progress=print).ok
    assert session.vm_resize(100, "scsi0", "8G", progress=print).ok
    double.table["get /nodes/pve1/qemu"] = []
    assert session.vm_destroy(100, progress=print).ok


def test_a_synchronous_write_without_an_answer_is_read_back(open_: Make) -> None:
    reads = InTurn({"cores": 1, "digest": "d"}, Silence(), {"cores": 2, "digest": "e"})
    session, double = open_({PUT: Silence(), CONFIG: reads, PENDING: []})
    session.vm_set(100, {"cores": "2"}, (), "d")
    assert len(double.writes()) == 1


def test_a_task_goes_on_while_the_node_does_not_answer(open_: Make) -> None:
    upid = task("qmstart")
    table = started(upid, RUNNING, log=())
    table[f"get /nodes/pve1/tasks/{upid}/status"] = InTurn(Silence(), RUNNING, Silence(), ended("OK"))
    lines: list[str] = []
    assert open_(table)[0].vm_start(100, timeout=60, progress=lines.append).ok
    assert sum("no answer for now" in line for line in lines) == 2


# --- pending ---------------------------------------------------------------------------------------------------


def test_pending_is_shown_as_pending(open_: Make) -> None:
    rows = [
        {"key": "hostpci0", "value": "mapping=a", "pending": "mapping=b"},
        {"key": "args", "value": "-x", "delete": 1},
        {"key": "cores", "value": 4, "pending": 4},
    ]
    session, _ = open_({CONFIG: {"hostpci0": "mapping=b", "digest": "d"}, PENDING: rows})
    assert session.vm_config(100).pending == {"hostpci0": "mapping=b", "args": None}


# --- high availability -----------------------------------------------------------------------------------------


def test_the_state_counts_where_the_task_only_files_a_request(open_: Make) -> None:
    states = InTurn(
        {"status": "stopped", "ha": {"managed": 1, "state": "request_start"}},
        {"status": "stopped", "ha": {"managed": 1, "state": "started"}},
        {"status": "running", "ha": {"managed": 1, "state": "started"}},
    )
    session, double = open_({**started(task("hastart"), ended("OK")), CURRENT: states})
    assert session.vm_start(100, timeout=60).ok
    assert double.count("get", "/nodes/pve1/qemu/100/status/current") == 3


def test_high_availability_that_gave_up_is_not_waited_for(open_: Make, clock: Clock) -> None:
    current = {"status": "stopped", "ha": {"managed": 1, "state": "error"}}
    with pytest.raises(TaskFailed, match="has given it up") as caught:
        open_({**started(task("hastart"), ended("OK")), CURRENT: current})[0].vm_start(100, timeout=3600)
    assert clock.now() < 60
    assert "ha-manager set vm:100 --state disabled" in caught.value.hint


def test_a_request_that_nothing_follows_is_a_failure(open_: Make) -> None:
    with pytest.raises(PveError, match="request was filed, but nothing followed"):
        open_({**started(task("hastart"), ended("OK")), CURRENT: {"status": "stopped"}})[0].vm_start(100, timeout=60)


# --- locks -----------------------------------------------------------------------------------------------------

LOCKS = [
    ("VM is locked (backup)", "lock backup"),
    ("VM is locked", "lock without a name"),
    (
        "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout",
        "the lock file /var/lock/qemu-server/lock-100.conf",
    ),
    (
        "update hardware mapping failed: cfs-lock 'file-mapping_pci_cfg' error: got lock request timeout",
        "the cluster's lock file-mapping_pci_cfg",
    ),
]


@pytest.mark.parametrize(("text", "lock"), LOCKS)
def test_a_lock_is_waited_for_and_named(open_: Make, told: list[str], text: str, lock: str) -> None:
    session, double = open_({PUT: InTurn(Refuse(text), Refuse(text), None), CONFIG: {"digest": "d"}, PENDING: []})
    session.vm_set(100, {"cores": "2"}, (), "d")
    assert len(double.writes()) == 3
    assert told == [f"waiting for {lock}, at most 300 s"]


@pytest.mark.parametrize(("text", "lock"), LOCKS)
def test_the_wait_has_a_limit(open_: Make, clock: Clock, text: str, lock: str) -> None:
    with pytest.raises(PveError, match="waited 300 s for") as caught:
        open_({"set /cluster/mapping/pci/gpu-0": Refuse(text)})[0].mapping_update("gpu-0", (ENTRY,), "d")
    assert lock in caught.value.message
    assert 300 <= clock.now() < 330
    assert isinstance(caught.value, GuestLocked) == text.startswith("VM is locked")


def test_a_task_that_a_lock_ends_is_made_again(open_: Make) -> None:
    first, second = task("qmstart"), task("qmstart").replace("0000014A", "0000014B")
    table = {START: InTurn(Say(first), Say(second))}
    table |= task_table(first, ended("VM is locked (snapshot)"), log=("TASK ERROR: VM is locked (snapshot)",))
    table |= task_table(second, ended("OK"))
    lines: list[str] = []
    assert open_(table)[0].vm_start(100, timeout=60, progress=lines.append).upid == second
    assert "waiting for lock snapshot, at most 300 s" in lines


def test_a_vm_that_the_mapping_unit_holds_back_is_not_waited_for(open_: Make, clock: Clock) -> None:
    session, _ = open_({PUT: Refuse("VM is locked (create)"), CONFIG: {"digest": "d"}, PENDING: []})
    with pytest.raises(GuestLocked):
        session.vm_set(100, {"cores": "2"}, (), "d")
    assert clock.now() == 0


def test_what_is_no_lock() -> None:
    assert lock_of("VM 100 already running") is None
    assert lock_of("cfs-lock 'file-mapping_pci_cfg' error: no quorum!") is None


# --- quorum ----------------------------------------------------------------------------------------------------

NO_QUORUM = [
    "cluster not ready - no quorum?",
    "create hardware mapping failed: cfs-lock 'file-mapping_pci_cfg' error: no quorum!",
    "delete pci mapping failed: cfs-lock 'file-mapping_pci_cfg' error: no quorum!",
    "No quorum on node 'pve1'!",
    "unable to open file '/etc/pve/nodes/pve1/qemu-server/101.conf.tmp.139' - Permission denied",
    "unable to create directory '/etc/pve/nodes/pve1/qemu-server' - Permission denied",
    "close (rename) atomic file '/etc/pve/nodes/pve1/qemu-server/101.conf' failed: Permission denied",
    "cluster is not quorate",
]


@pytest.mark.parametrize("text", NO_QUORUM)
def test_no_quorum_in_every_wording(open_: Make, text: str) -> None:
    session, _ = open_({PUT: Refuse(text), CONFIG: {"digest": "d"}, PENDING: []})
    with pytest.raises(PveError) as caught:
        session.vm_set(100, {"cores": "2"}, (), "d")
    assert "the cluster has no quorum" in caught.value.hint


@pytest.mark.parametrize("text", NO_QUORUM)
def test_no_quorum_as_the_end_of_a_task(open_: Make, text: str) -> None:
    table = started(task("qmstart"), ended(text), log=(f"TASK ERROR: {text}",))
    error = task_failure("start VM 100", "pve1", open_(table)[0].vm_start(100, timeout=60))
    assert "the cluster has no quorum" in error.hint


def test_what_is_no_question_of_quorum() -> None:
    error = refusal("write", "pve1", Answer(500, "unable to open file '/etc/vzdump.conf' - Permission denied", {}))
    assert "quorum" not in error.hint


# --- limits of a start -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"memory": "2048"},
        {"memory": "524288", "hostpci0": "mapping=a", "hugepages": "1024", "net0": "virtio"},
        {"memory": "3145728", "hostpci0": "mapping=a", "hostpci1": "mapping=a"},
    ],
)
def test_a_start_is_waited_for_as_long_as_proxmox_itself_waits(
    open_: Make, clock: Clock, options: dict[str, str]
) -> None:
    table = {**started(task("qmstart"), RUNNING, log=()), CONFIG: {**options, "digest": "d"}, PENDING: []}
    with pytest.raises(TaskFailed, match=f"within {start_timeout_of(options) + 600} s"):
        open_(table)[0].vm_start(100)
    assert clock.now() >= start_timeout_of(options) + 600
