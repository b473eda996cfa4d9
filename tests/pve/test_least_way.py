"""A token does what it may; only what Proxmox leaves to root@pam goes by the root shell beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from provision.errors import PveError
from provision.lab.proxmox.access import Caller
from provision.lab.proxmox.calls import perform
from provision.lab.proxmox.faults import CallFailed
from provision.lab.proxmox.node import Node
from provision.lab.rootfs import Rootfs
from provision.pve.least_role import grants
from provision.pve.least_way import LeastWay
from provision.pve.objects import PveObjects
from provision.pve.privileges import create_needs, image_path, least, root_keys
from provision.pve.tasks import Clock

from .two_ways import Double, Refuse, Say, ended, task, task_table

PUT = "set /nodes/pve1/qemu/100/config"
CONFIG, PENDING = "get /nodes/pve1/qemu/100/config", "get /nodes/pve1/qemu/100/pending"
CREATE = "create /nodes/pve1/qemu"
NEW = {
    "name": "new",
    "memory": "65536",
    "efidisk0": "lvm:1,efitype=4m",
    "scsi0": "lvm:0,import-from=local:import/x.qcow2",
    "ide2": "lvm:cloudinit",
    "net0": "virtio,bridge=vmbr0,tag=7",
    "hostpci0": "mapping=gpu-0,pcie=1",
    "args": "-cpu host",
    "hugepages": "1024",
}


class DoubleCaller:
    """A caller over a table of answers."""

    where = "pve1"

    def __init__(self, double: Double, *, is_root: bool) -> None:
        self.double = double
        self.is_root = is_root
        self.way: Any = "shell" if is_root else "api"

    def call(self, verb: str, path: str, params: Any, *, action: str, timeout: float | None = None) -> Any:
        found = self.double.answer(verb, path, {key: [str(value)] for key, value in params.items()})
        if isinstance(found, Refuse):
            raise PveError(f"Unable to {action}: {found.text}")
        return found.upid if isinstance(found, Say) else found


Pair = tuple[LeastWay, Double, Double, list[str]]


@pytest.fixture
def pair(clock: Clock) -> Callable[[dict[str, Any]], Pair]:
    def make(table: dict[str, Any]) -> Pair:
        token, root, told = Double(table), Double(dict(table)), list[str]()
        shell = PveObjects(DoubleCaller(root, is_root=True), "pve1", clock=clock)
        way = LeastWay(DoubleCaller(token, is_root=False), "pve1", lambda: shell, clock=clock, tell=told.append)
        return way, token, root, told

    return make


def keys(double: Double) -> list[list[str]]:
    return [sorted({*params} - {"digest"}) for _, _, params in double.writes()]


def test_a_change_is_split_at_what_only_root_may(pair: Callable[..., Pair]) -> None:
    way, token, root, told = pair({PUT: None, CONFIG: {"hostpci1": "0000:41:00.0", "digest": "d"}, PENDING: []})
    way.vm_set(100, {"cores": "4", "hostpci0": "mapping=a", "hostpci1": "mapping=b"}, ("affinity",), "d")
    assert keys(token) == [["hostpci0"], ["cores"]]
    assert keys(root) == [["delete", "hostpci1"]], "the old raw value is root's too"
    assert (way.way, way.is_root, way.has_root) == ("api", False, True)
    assert told == ["VM 100: affinity, hostpci1 by the root shell, as no token may"]


def test_a_change_without_root_options_stays_with_the_token(pair: Callable[..., Pair]) -> None:
    way, token, root, _ = pair({PUT: None, CONFIG: {"digest": "d"}, PENDING: []})
    way.vm_set(100, {"cores": "4"}, (), "d")
    assert (keys(token), root.asked) == ([["cores"]], [])


def test_a_change_of_root_options_alone_asks_the_token_for_nothing(pair: Callable[..., Pair]) -> None:
    way, token, root, _ = pair({PUT: None, CONFIG: {"digest": "d"}, PENDING: []})
    way.vm_set(100, {"args": "-x"}, (), "d")
    assert (keys(token), keys(root)) == ([], [["args"]])
    assert root.writes()[0][2]["digest"] == ["d"]


def test_an_option_with_a_pending_change_is_roots_to_be_sure(pair: Callable[..., Pair]) -> None:
    rows = [{"key": "hostpci0", "value": "0000:41:00.0", "pending": "mapping=a"}]
    way, token, root, _ = pair({PUT: None, CONFIG: {"hostpci0": "mapping=a", "digest": "d"}, PENDING: rows})
    way.vm_set(100, {"hostpci0": "mapping=b"}, (), "d")
    assert (keys(token), keys(root)) == ([], [["hostpci0"]])


def test_nothing_of_root_is_written_where_the_token_is_refused(pair: Callable[..., Pair]) -> None:
    way, token, root, _ = pair({PUT: Refuse("no"), CONFIG: {"digest": "d"}, PENDING: []})
    with pytest.raises(PveError, match="no"):
        way.vm_set(100, {"cores": "4", "args": "-x"}, (), "d")
    assert (len(token.writes()), root.writes()) == (1, [])


def test_a_new_vm_gets_roots_options_after_it_is_made(pair: Callable[..., Pair]) -> None:
    upid = task("qmcreate")
    table = {CREATE: Say(upid), PUT: None, CONFIG: {"digest": "d"}, PENDING: [], **task_table(upid, ended("OK"))}
    way, token, root, _ = pair(table)
    assert way.vm_create(100, NEW, progress=print).ok
    assert keys(token) == [sorted({*NEW, "vmid"} - {"args", "hugepages"})]
    assert root.writes() == [
        ("set", "/nodes/pve1/qemu/100/config", {"args": ["-cpu host"], "hugepages": ["1024"], "digest": ["d"]})
    ]


def test_a_new_vm_that_was_not_made_gets_nothing(pair: Callable[..., Pair]) -> None:
    upid = task("qmcreate")
    way, _, root, _ = pair({CREATE: Say(upid), **task_table(upid, ended("no space"), log=())})
    assert not way.vm_create(100, NEW, progress=print).ok
    assert root.asked == []


def test_an_image_by_its_path_is_roots_as_a_whole(pair: Callable[..., Pair]) -> None:
    upid = task("qmcreate")
    way, token, root, _ = pair({CREATE: Say(upid), **task_table(upid, ended("OK"))})
    options = {**NEW, "scsi0": "lvm:0,import-from=/srv/x.qcow2"}
    assert image_path(options) == "/srv/x.qcow2"
    assert way.vm_create(100, options, progress=print).ok
    assert (token.asked, len(root.writes())) == ([], 1)


def test_needs_of_a_new_vm() -> None:
    found = {(need.path, need.privilege) for need in create_needs(100, NEW) if need.who == "token"}
    assert found == {
        ("/vms/100", "VM.Allocate"),
        ("/vms/100", "VM.Audit"),
        ("/vms/100", "VM.Config.Disk"),
        ("/vms/100", "VM.Config.HWType"),
        ("/vms/100", "VM.Config.Memory"),
        ("/vms/100", "VM.Config.Network"),
        ("/vms/100", "VM.Config.Options"),
        ("/mapping/pci/gpu-0", "Mapping.Use"),
        ("/storage/lvm", "Datastore.AllocateSpace"),
        ("/storage/local", "Datastore.Audit|Datastore.AllocateSpace"),
        ("/sdn/zones/localnetwork/vmbr0/7", "SDN.Use"),
    }
    assert {need.operation for need in create_needs(100, NEW) if need.who != "token"} == {
        "vm.set args",
        "vm.set hugepages",
    }
    by_path = create_needs(100, {**NEW, "scsi0": "lvm:0,import-from=/srv/x.qcow2"})
    assert [(need.privilege, need.who) for need in by_path] == [("root@pam", "ticket")]
    assert least(create_needs(100, {"name": "x"})) == "token"


def made(folder: Path, held: Mapping[str, frozenset[str]]) -> None:
    """Make the VM on the lab's node with a token of these privileges, let its disk grow and read it."""
    node = Node(Rootfs(folder), "pve1")
    node.root.write("/etc/pve/storage.cfg", "dir: local\n\nlvmthin: lvm\n")
    caller = Caller("gpu@pve!ci", acl=held)
    root = set(root_keys(NEW, NEW, {}))
    options = {key: value for key, value in NEW.items() if key not in root}
    upid = perform(node, caller, "POST", "/nodes/pve1/qemu", {"vmid": "100", **options})
    assert node.tasks.find(upid).succeeded
    perform(node, caller, "PUT", "/nodes/pve1/qemu/100/resize", {"disk": "scsi0", "size": "64G"})
    perform(node, caller, "GET", "/nodes/pve1/qemu/100/config", {})


def test_a_token_with_just_the_printed_entries_makes_the_vm_and_with_any_less_does_not(tmp_path: Path) -> None:
    found = {grant.path: frozenset(grant.privileges) for grant in grants(create_needs(100, NEW))}
    made(tmp_path / "enough", found)
    less = [(path, name) for path, names in found.items() for name in names]
    for number, (path, name) in enumerate(less):
        with pytest.raises(CallFailed) as caught:
            made(tmp_path / str(number), {**found, path: found[path] - {name}})
        assert caught.value.status == 403, (path, name)
    print(f"{len(less)} privileges, each of them needed")
    assert len(less) == 11


def test_root_keys() -> None:
    assert root_keys(("args", "cores", "hostpci0"), {"hostpci0": "mapping=a"}, {"hostpci0": "41:00"}) == (
        "args",
        "hostpci0",
    )


def test_the_plan_says_what_a_new_vm_needs() -> None:
    from provision.plan.model import Basis, Change, Plan, VmCreate
    from provision.plan.plan_needs import plan_needs

    change = Change(
        id="vm.100", title="t", operation=VmCreate(vmid=100, set=NEW), diff="", reason="", privilege="ticket", undo=""
    )
    basis = Basis(machine_id="m", node="pve1", host_key="k", boot_id="b", digests={})
    plan = Plan(host="h", basis=basis, changes=(change,), unchanged=(), expectations=(), gpus=())
    ((_, found),) = plan_needs(plan)
    assert found == create_needs(100, NEW)
