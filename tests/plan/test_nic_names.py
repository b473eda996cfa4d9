"""Names of network interfaces: when they are pinned, how, and when not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.boot.interfaces import INTERFACES_FILE, InterfacesFile
from provision.boot.link_file import LinkFile
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.plan.model import FileWrite, Plan
from provision.plan.nic_names import PROXMOX_TOOL

PlanFor = Callable[..., Plan]
WithFile = Callable[..., HostModel]
ALWAYS = {"pin": "always"}
GRUB = "/etc/default/grub"


def written(plan: Plan) -> dict[str, str]:
    found = {c.operation.path: c.operation.content for c in plan.changes if isinstance(c.operation, FileWrite)}
    return {path: text for path, text in found.items() if path.endswith(".link") or "network" in path}


def port(model: HostModel) -> tuple[str, str]:
    """Name and address of the interface below the bridge."""
    assert isinstance(model.interfaces, tuple)
    found = next(i for i in model.interfaces if i.bdf is not None and "bridge vmbr0" in i.uses)
    assert isinstance(found.mac, str)
    return found.name, found.mac


def text_of(model: HostModel, path: str) -> str:
    content = model.files[path].content
    assert isinstance(content, str)
    return content


def test_nothing_is_pinned_by_default(epyc: HostModel, plan_for: PlanFor) -> None:
    assert written(plan_for(epyc, iommu="pt")) == {}


def test_always_pins_by_address_and_rewrites_the_interfaces_file(epyc: HostModel, plan_for: PlanFor) -> None:
    name, mac = port(epyc)
    files = written(plan_for(epyc, network=ALWAYS))
    assert LinkFile.parse(files["/etc/systemd/network/50-pvectl-nic0.link"]) == LinkFile((mac,), "nic0")
    before = InterfacesFile.parse(text_of(epyc, INTERFACES_FILE))
    names = [
        path.removeprefix("/etc/systemd/network/50-pvectl-").removesuffix(".link") for path in files if "link" in path
    ]
    assert names == ["nic0", "nic1"]
    after = InterfacesFile.parse(files[INTERFACES_FILE])
    assert len(after.words("nic0")) == len(before.words(name)) > 1
    assert after.words(name) == ()


def test_the_files_come_before_the_initramfs_and_need_the_reboot(epyc: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(epyc, network=ALWAYS)
    last = next(c for c in plan.changes if c.id == "network.initramfs")
    assert {"network.link.nic0", "network.interfaces"} <= set(last.depends_on)
    assert plan.needs_reboot
    assert any("do not reload the network" in warning for warning in plan.warnings)


def test_a_pci_parameter_that_waits_for_the_boot_pins(epyc: HostModel, plan_for: PlanFor, with_file: WithFile) -> None:
    model = with_file(epyc, GRUB, text_of(epyc, GRUB).replace("quiet", "quiet pci=realloc"))
    plan = plan_for(model, iommu="pt")
    assert "/etc/systemd/network/50-pvectl-nic0.link" in written(plan)
    assert any("pci=realloc" in c.reason for c in plan.changes if c.id.startswith("network."))
    never = plan_for(model, iommu="pt", network={"pin": "never"})
    assert written(never) == {}
    assert any("leaves their names to chance" in warning for warning in never.warnings)


def test_where_proxmox_has_its_tool_the_pins_are_its_own(
    epyc: HostModel, plan_for: PlanFor, with_file: WithFile
) -> None:
    files = written(plan_for(with_file(epyc, PROXMOX_TOOL, "#!/usr/bin/perl\n"), network=ALWAYS))
    assert "/usr/local/lib/systemd/network/50-pmx-nic0.link" in files


def pinned(model: HostModel, plan: Plan, with_file: WithFile) -> HostModel:
    """The host after the plan and the boot."""
    for path, text in written(plan).items():
        model = with_file(model, path, text)
        folder = path.rsplit("/", 1)[0]
        assert isinstance(model.folders, dict)
        folders = {**model.folders, folder: (*model.folders.get(folder, ()), path)}
        model = model.model_copy(update={"folders": folders})
    assert isinstance(model.interfaces, tuple)
    names = {
        link.macs[0]: link.name for p, t in written(plan).items() if p.endswith(".link") for link in [LinkFile.parse(t)]
    }
    named = tuple(
        i.model_copy(update={"name": names[i.mac]}) if i.bdf is not None and i.mac in names else i
        for i in model.interfaces
    )
    return model.model_copy(update={"interfaces": named})


def test_a_pinned_host_is_left_alone(epyc: HostModel, plan_for: PlanFor, with_file: WithFile) -> None:
    after = pinned(epyc, plan_for(epyc, network=ALWAYS), with_file)
    plan = plan_for(after, network=ALWAYS)
    assert written(plan) == {}
    assert any(".link file" in kept.reason for kept in plan.unchanged)


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        (
            INTERFACES_FILE,
            "iface {name} inet manual\n\tpost-up echo > /sys/class/net/{name}/x\n",
            "inside a longer word",
        ),
        ("/etc/pve/sdn/controllers.cfg", "isis: x\n\tisis-ifaces {name}\n", "controllers.cfg names"),
        ("/etc/pve/nodes/pve1/host.fw", "IN ACCEPT -i {name}\n", "host.fw names"),
    ],
)
def test_what_cannot_be_renamed_everywhere_is_not_renamed(
    epyc: HostModel, plan_for: PlanFor, with_file: WithFile, path: str, text: str, reason: str
) -> None:
    name, _ = port(epyc)
    if path == INTERFACES_FILE:
        text = text_of(epyc, INTERFACES_FILE) + text
    plan = plan_for(with_file(epyc, path, text.replace("{name}", name)), network=ALWAYS)
    assert written(plan) == {}
    assert any(reason in warning for warning in plan.warnings)


@pytest.mark.parametrize("change", [{"mac": None}, {"mac": Unknown(unknown="denied")}])
def test_an_interface_without_address_keeps_its_name(epyc: HostModel, plan_for: PlanFor, change: Any) -> None:
    assert isinstance(epyc.interfaces, tuple)
    bare = tuple(i.model_copy(update=change) for i in epyc.interfaces)
    plan = plan_for(epyc.model_copy(update={"interfaces": bare}), network=ALWAYS)
    assert written(plan) == {}
    assert any("hardware address" in kept.reason for kept in plan.unchanged)


def test_files_that_were_not_read_stop_the_pinning(epyc: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(epyc.model_copy(update={"folders": {}}), network=ALWAYS)
    assert written(plan) == {}
    assert any("not pinned" in warning for warning in plan.warnings)


def test_names_that_are_pinned_are_expected_now_and_ever_after(
    epyc: HostModel, plan_for: PlanFor, with_file: WithFile
) -> None:
    def expected(plan: Plan) -> set[tuple[str, str]]:
        return {(e.subject, e.expected) for e in plan.expectations if e.check == "network-name"}

    assert expected(plan_for(epyc)) == set(), "nothing is pinned"
    plan = plan_for(epyc, network=ALWAYS)
    _, mac = port(epyc)
    assert (mac, "nic0") in expected(plan)
    assert len(expected(plan)) == 2
    model = pinned(epyc, plan, with_file)
    assert expected(plan_for(model)) == expected(plan), "also where nothing is to be done"
    own = with_file(epyc, "/etc/systemd/network/10-mine.link", f"[Match]\nMACAddress={mac}\n[Link]\nName=lan0\n")
    assert expected(plan_for(own)) == set(), "a link file of somebody else is not ours to judge"
