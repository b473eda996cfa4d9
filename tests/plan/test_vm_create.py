"""VMs that the plan makes: one inventory file is enough, and no secret is in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from provision.cli.planning import with_keys
from provision.errors import InventoryError
from provision.host.model import HostModel
from provision.inventory.loader import load
from provision.inventory.models import Host
from provision.plan.digests import ABSENT
from provision.plan.make import make_plan
from provision.plan.model import Change, MappingPut, Plan, VmCreate
from provision.pve.mapping import parse_entry
from provision.pve.model import PciMapping

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA operator"
CREATE: dict[str, Any] = {
    "name": "inference",
    "memory": "512G",
    "cores": 48,
    "sockets": 2,
    "storage": "local-lvm",
    "disk": {"import": "local:import/noble.qcow2", "size": "500G"},
    "cloud_init": {"user": "ubuntu", "ssh_keys": [KEY], "ip": "192.0.2.7/24", "gateway": "192.0.2.1"},
}
EXAMPLE = Path(__file__).parents[2] / "inventories" / "eight-gpus-new-vm.yaml"
PlanFor = Callable[..., Plan]


def wish(**changes: Any) -> dict[str, Any]:
    return {"vms": {200: {"gpus": "all", "create": {**CREATE, **changes}}}}


def creation(plan: Plan) -> tuple[Change, VmCreate]:
    change = next(c for c in plan.changes if c.id == "vm.200")
    assert isinstance(change.operation, VmCreate)
    return change, change.operation


def test_eight_gpus_are_one_inventory_file(epyc: HostModel) -> None:
    inventory = load(EXAMPLE)
    host = inventory.hosts["pve1"]
    plan = make_plan("pve1", epyc, host, inventory.policies_for("pve1"), identities={}, version="0.1.0")
    change, operation = creation(plan)
    values = operation.set
    assert [values[f"hostpci{n}"] for n in range(8)] == [f"mapping=gpu-{n},pcie=1" for n in range(8)]
    assert values["machine"] == "pc-q35-10.0"
    assert values["bios"] == "ovmf"
    assert values["efidisk0"] == "local-lvm:1,efitype=4m,pre-enrolled-keys=0"
    assert (values["cpu"], values["balloon"], values["numa"], values["hugepages"]) == ("host", "0", "1", "1024")
    assert values["numa1"] == "cpus=48-95,hostnodes=1,memory=262144,policy=bind"
    assert operation.grow_to == "500G"
    assert change.privilege == "ticket"
    assert "+ -device vfio-pci,host=0000:e1:00.0,id=hostpci7,bus=ich9-pcie-port-8,addr=0x0" in change.command_diff
    assert plan.starts_guests == (200,)
    assert plan.basis.digests["vm/200"] == ABSENT


def test_a_new_vm_by_token(epyc: HostModel, plan_for: PlanFor) -> None:
    change, operation = creation(plan_for(epyc, wish()))
    assert change.privilege == "token"
    assert operation.set["scsi0"] == "local-lvm:0,import-from=local:import/noble.qcow2,discard=on,iothread=1"
    assert operation.set["ide2"] == "local-lvm:cloudinit"
    assert operation.set["ipconfig0"] == "ip=192.0.2.7/24,gw=192.0.2.1"
    assert operation.set["sshkeys"].startswith("ssh-ed25519%20AAAA")
    assert operation.set["net0"] == "virtio,bridge=vmbr0"
    assert "destroy VM 200, if this run made it" in change.undo


def test_an_image_by_its_path_is_left_to_root(epyc: HostModel, plan_for: PlanFor) -> None:
    change, _ = creation(plan_for(epyc, wish(disk={"import": "/root/noble.img"})))
    assert change.privilege == "ticket"


def test_an_empty_disk(epyc: HostModel, plan_for: PlanFor) -> None:
    _, operation = creation(plan_for(epyc, wish(disk={"size": 32}, network={"bridge": "vmbr1", "vlan": 7})))
    assert operation.set["scsi0"] == "local-lvm:32,discard=on,iothread=1"
    assert operation.set["net0"] == "virtio,bridge=vmbr1,tag=7"
    assert operation.grow_to is None


def test_a_vm_that_is_there_is_not_made_again(epyc: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(epyc, {"vms": {100: {"gpus": "all", "create": CREATE}}})
    assert not [c for c in plan.changes if isinstance(c.operation, VmCreate)]
    assert any(u.subject == "VM 100 create" for u in plan.unchanged)


def test_the_plan_after_it_was_made_is_empty_for_the_vm(epyc: HostModel, plan_for: PlanFor, with_vm: Any) -> None:
    first = plan_for(epyc, wish())
    _, operation = creation(first)
    puts = [c.operation for c in first.changes if isinstance(c.operation, MappingPut) and c.operation.before is None]
    new = tuple(PciMapping(id=put.id, entries=tuple(filter(None, map(parse_entry, put.entries)))) for put in puts)
    mapped = epyc.model_copy(update={"proxmox": epyc.proxmox.model_copy(update={"mappings": new})})
    plan = plan_for(with_vm(mapped, operation.set), {"vms": {100: {"gpus": "all", "create": CREATE}}})
    assert not [c for c in plan.changes if c.id == "vm.100"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cloud_init": {"user": "ubuntu", "password": "x"}}, "password is not taken"),
        ({"cloud_init": {"ssh_keys": ["-----BEGIN OPENSSH PRIVATE KEY-----"]}}, "public keys"),
        ({"disk": {}}, "import, size or both"),
        ({"disk": {"import": "noble.img"}}, "pattern"),
        ({"name": "a b"}, "pattern"),
        ({"memory": "much"}, "integer"),
    ],
)
def test_what_create_refuses(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Host.model_validate({"address": "local", **wish(**changes)})


def test_keys_come_from_their_file(tmp_path: Path, epyc: HostModel, plan_for: PlanFor) -> None:
    file = tmp_path / "keys.pub"
    file.write_text(f"# mine\n{KEY}\n", encoding="utf-8")
    cloud = {"ssh_keys_file": str(file)}
    host = with_keys(Host.model_validate({"address": "local", **wish(cloud_init=cloud)}))
    create = host.vms[200].create
    assert create is not None
    assert create.cloud_init is not None
    assert create.cloud_init.ssh_keys == (KEY,)
    with pytest.raises(InventoryError, match="were not read"):
        plan_for(epyc, wish(cloud_init=cloud))
    file.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n", encoding="utf-8")
    with pytest.raises(InventoryError, match="no file of public keys"):
        with_keys(Host.model_validate({"address": "local", **wish(cloud_init=cloud)}))
