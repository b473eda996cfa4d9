"""What init writes is an inventory that loads and means what was found."""

from __future__ import annotations

import pytest

from provision.evidence import Unknown
from provision.inventory.loader import parse
from provision.inventory.select import select_gpus
from provision.inventory.starter import starter


def read(text):
    return next(iter(parse(text, "starter").hosts.items()))


def test_a_host_without_vms_gives_an_example_in_comments(build):
    text = starter(build.host(), "root@192.0.2.7:2222")
    name, host = read(text)
    assert (name, host.address, dict(host.vms)) == ("pve1", "root@192.0.2.7:2222", {})
    assert "#   0000:c1:00.0 10de:2330" in text
    assert "#     gpus: all" in text


def test_slots_by_mapping_and_by_address_are_taken_over(build):
    model = build.host(
        vms=(
            build.vm(100, ("rtx", None), ("rtx", None), name="with\nnewline: and # marks"),
            build.vm(101, (None, "c1:00"), (None, "0000:02:00.0")),
            build.vm(102),
        ),
        mappings=(build.pool("rtx", "0000:01:00.0", "0000:41:00", "0000:81:00.0"),),
    )
    _, host = read(starter(model, "local"))
    assert host.vms[100].gpus.bdf == ("0000:01:00.0", "0000:41:00.0")
    assert host.vms[101].gpus.bdf == ("0000:c1:00.0",)
    assert set(host.vms) == {100, 101}
    assert select_gpus(host.vms[100].gpus, model)


def test_a_vm_with_every_gpu_is_written_as_all(build):
    paths = [g.bdf for g in build.gpus]
    model = build.host(vms=(build.vm(100, *[("all", None)] * 4),), mappings=(build.pool("all", *paths),))
    text = starter(model, "local")
    assert "        gpus: all\n" in text
    assert len(select_gpus(read(text)[1].vms[100].gpus, model)) == 4


def test_what_could_not_be_read_is_said(build):
    model = build.host(vms=Unknown(unknown="denied"))
    assert "# VMs could not be read: denied" in starter(model, "local")
    model = build.host(vms=(build.vm(100, ("a1", None)),), mappings=Unknown(unknown="denied"))
    assert "# No VM has a GPU now." in starter(model, "local")
    assert "No NVIDIA GPU was found" in starter(build.host(build.others), "local")


@pytest.mark.parametrize(
    "target",
    [
        "local",
        "root@pve1",
        "root@[2001:db8::1]:22",
        "[2001:db8::1]",
        "10.0.0.1",
        "yes",
        "1.5",
        "null",
        "a#b",
        "pve:",
        "12",
    ],
)
def test_any_address_reads_back(build, target):
    model = build.host().model_copy(update={"hostname": Unknown(unknown="x")})
    proxmox = model.proxmox.model_copy(update={"node": Unknown(unknown="x")})
    name, host = read(starter(model.model_copy(update={"proxmox": proxmox}), target))
    assert host.address == target
    assert name
