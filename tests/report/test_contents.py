"""What is drawn: groups, owners, links, ACS; before a plan and after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.plan.model import Plan
from provision.report.contents import pictures
from provision.report.picture import Item, Line, Picture
from provision.report.svg import tooltip


def texts(item: Item) -> list[str]:
    return [line.text for line in item.lines]


def box(picture: Picture, key: str) -> Item:
    return next(item for item in picture.root.walk() if item.key == key)


def changed(item: Item) -> Iterator[str]:
    return (line.text for line in item.lines if line.tone == "changed")


@pytest.fixture(scope="module")
def epyc(model: Callable[..., HostModel]) -> Picture:
    return pictures(model())[0]


def test_tree_of_sockets_bridges_ports_and_devices(epyc: Picture) -> None:
    nodes = [child for child in epyc.root.children if child.kind == "node"]
    assert [node.key for node in nodes] == ["NUMA node 0", "NUMA node 1"]
    assert [len(node.children) for node in nodes] == [4, 4]
    bridge = nodes[0].children[2]
    assert texts(bridge) == ["host bridge pci0000:40", "ACPI \\_SB_.S0D2, ivhd2"]
    port = bridge.children[0]
    assert texts(port) == ["0000:40:01.1", "root port, gen5 x16", "ACS SV+ RR+ CR+ UF+", "group 29"]
    assert [child.key for child in port.children] == ["0000:41:00.0"]


def test_a_gpu_says_who_it_is_how_it_is_linked_and_who_owns_it(epyc: Picture) -> None:
    gpu = box(epyc, "0000:41:00.0")
    assert texts(gpu) == [
        "GPU 0000:41:00.0",
        "RTX PRO 6000 Blackwell Server Edition",
        "10de:2bb5, BAR1 128 GiB",
        "gen1 x16 of gen5 x16",
        "driver nouveau",
        "group 38",
        "mapping rtx6000 says group 47",
        "VM 100 llm by mapping rtx6000 (1 of 8)",
    ]
    assert gpu.owners == ("VM 100",)
    said = tooltip(gpu).split("\n")
    assert {"serial number: 7ed9618d8dc5a003", "slot: 3", "IOMMU unit: ivhd2", "errors seen: no"} <= set(said)


def test_disks_and_nics_say_what_the_host_uses_them_for(epyc: Picture) -> None:
    assert "eno1np0: default route, network 192.0.2.0/24, bridge vmbr0" in texts(box(epyc, "0000:42:00.0"))
    assert any(text.startswith("nvme0n1: /") for text in texts(box(epyc, "0000:22:00.0")))


def test_vms_are_drawn_as_owners(epyc: Picture) -> None:
    vm = box(epyc, "VM 100")
    assert texts(vm) == ["VM 100 llm", "stopped", "8 devices of mapping rtx6000"]


def test_a_group_of_one_card_is_an_outline_around_it(epyc: Picture) -> None:
    outline = next(outline for outline in epyc.outlines if outline.group == 38)
    assert (outline.keys, outline.heads, outline.is_shared) == (("0000:41:00.0",), (), False)
    port = next(outline for outline in epyc.outlines if outline.group == 29)
    assert (port.keys, port.heads) == ((), ("0000:40:01.1",))


def test_a_shared_group_goes_around_everything_in_it(model: Callable[..., HostModel]) -> None:
    (picture,) = pictures(model("workstation-shared-nic"))
    shared = [outline for outline in picture.outlines if outline.is_shared]
    assert [(outline.keys, outline.heads) for outline in shared] == [(("0000:02:00.1", "0000:02:00.2"), ())]
    inside = {item.key for item in box(picture, "0000:02:00.2").walk()}
    assert {"0000:04:00.0", "0000:06:00.0"} <= inside


def test_a_port_without_isolation_stands_out(model: Callable[..., HostModel]) -> None:
    (picture,) = pictures(model("workstation-shared-nic"))
    assert Line("no ACS", "warn") in box(picture, "0000:03:00.0").lines
    assert Line("no ACS", "plain") in box(picture, "0000:02:00.2").lines


def test_fewer_lanes_than_the_card_has_stand_out(model: Callable[..., HostModel]) -> None:
    (picture,) = pictures(model("switch-4x4"))
    assert Line("gen3 x4 of gen3 x8", "warn") in box(picture, "0000:c1:00.0").lines
    assert Line("gen1 x16 of gen5 x16", "muted") in box(picture, "0000:03:00.0").lines


def test_after_a_plan(model: Callable[..., HostModel], plan: Callable[[HostModel], Plan]) -> None:
    host = model("switch-4x4")
    now, after = pictures(host, plan(host))
    assert not any(line.tone == "changed" for item in now.root.walk() for line in item.lines)
    gpu = box(after, "0000:84:00.0")
    assert list(changed(gpu)) == ["driver vfio-pci", "VM 100 train by mapping gpu-5"]
    assert not any("says group" in text for text in texts(gpu))
    assert "gpu-5: 0000:84:00.0" in changed(box(after, "VM 100"))
    assert not list(changed(box(after, "0000:c1:00.0")))


def test_groups_that_a_plan_moves(model: Callable[..., HostModel], plan: Callable[[HostModel], Plan]) -> None:
    """Numbers of GPUs come from the plan; it says nothing of the others, and neither does the picture."""
    host = model("switch-4x4")
    made = plan(host)
    rows = tuple(row.model_copy(update={"group_after": 200 + number}) for number, row in enumerate(made.gpus))
    _, after = pictures(host, made.model_copy(update={"gpus": rows}))
    assert "group 200 (was 18)" in changed(box(after, "0000:03:00.0"))
    assert "group ?" in texts(box(after, "0000:c1:00.0"))
    assert "draw it again after the reboot" in tooltip(box(after, "0000:c1:00.0"))
    assert {outline.group for outline in after.outlines} == {row.group_after for row in rows}


def test_what_is_not_known_is_a_question_mark_with_its_reason(model: Callable[..., HostModel]) -> None:
    host = model()
    why = Unknown(unknown="it was not read", supply="take it again as root")
    blind = [
        fn.model_copy(update=dict.fromkeys(("config", "iommu_group", "link", "bars", "driver", "numa_node"), why))
        for fn in host.pci
    ]
    proxmox = host.proxmox.model_copy(update={"vms": why, "mappings": why, "version": why})
    (picture,) = pictures(host.model_copy(update={"pci": tuple(blind), "proxmox": proxmox, "hostname": why}))
    gpu = box(picture, "0000:41:00.0")
    assert {"10de:2bb5, BAR1 ?", "link ?", "driver ?", "group ?", "owner ?"} <= set(texts(gpu))
    assert "ACS ?" in texts(box(picture, "0000:40:01.1"))
    assert "configuration space: unknown (it was not read); to supply it: take it again as root" in tooltip(gpu)
    assert picture.outlines == ()
    assert texts(box(picture, "owners")) == ["Virtual machines: not known"]


def test_what_is_left_out_is_counted(epyc: Picture, model: Callable[..., HostModel]) -> None:
    shown = sum(item.key.count(":") == 2 for item in epyc.root.walk())
    assert epyc.notes == (f"{len(model().pci) - shown} other functions not shown",)


def test_nothing_at_all(model: Callable[..., HostModel]) -> None:
    (picture,) = pictures(model().model_copy(update={"pci": ()}))
    assert picture.root.children
    assert picture.outlines == ()
