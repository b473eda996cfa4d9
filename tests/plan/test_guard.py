from __future__ import annotations

from typing import Any

import pytest

from provision.errors import GuardRefused
from provision.evidence import Maybe, Unknown
from provision.host.model import (
    BlockDevice,
    BootLoader,
    Console,
    FileState,
    HostModel,
    Iommu,
    IommuGroup,
    Kernel,
    NetworkInterface,
    Proxmox,
)
from provision.inventory.models import Policies
from provision.pci.model import PciFunction
from provision.plan.guard import Groups, guard, refuse

GPU, NIC, DISK, VGA = "0000:41:00.0", "0000:42:00.0", "0000:43:00.0", "0000:44:00.0"
LOST = Unknown(unknown="not captured", supply="take a new capture as root")


def host(groups: tuple[tuple[str, ...], ...] = ((GPU,), (NIC,), (DISK,), (VGA,)), **parts: Any) -> HostModel:
    numbered = {bdf: number for number, members in enumerate(groups) for bdf in members}
    classes = {GPU: 0x030200, NIC: 0x020000, DISK: 0x010802, VGA: 0x030000}
    missing: Any = Unknown(unknown="not part of this test")
    defaults: dict[str, Any] = {
        "hostname": "pve1",
        "machine_id": "m",
        "kernel": Kernel(
            release="6.14.0-pve",
            running_cmdline="quiet",
            boot_id="b",
            modules=(),
            cpu_vendor="AuthenticAMD",
            phys_bits=52,
            memory_bytes=1 << 40,
            numa_nodes=(0,),
        ),
        "boot": BootLoader(kind="grub", cmdline_file="/etc/default/grub", evidence=()),
        "iommu": Iommu(
            units=("ivhd0",),
            firmware_table="IVRS",
            groups=tuple(IommuGroup(number=n, members=m) for n, m in enumerate(groups)),
        ),
        "pci": tuple(
            PciFunction(bdf=bdf, vendor=0x10DE, device=1, class_code=code, iommu_group=numbered.get(bdf))
            for bdf, code in classes.items()
        ),
        "disks": (BlockDevice(name="nvme0n1", bdf=DISK, uses=("/", "/boot/efi")),),
        "interfaces": (NetworkInterface(name="eno1", bdf=NIC, mac=None, uses=("default route", "bridge vmbr0")),),
        "console": Console(has_bmc=False, boot_vga=VGA, serial=False),
        "proxmox": Proxmox(
            version=missing,
            node="pve1",
            quorate=True,
            mappings=(),
            mapping_file=FileState(path="x", content=None, sha256=None),
            vms=(),
        ),
        "files": {},
    }
    return HostModel(**{**defaults, **parts})


def hits(
    model: HostModel, taken: tuple[str, ...] = (GPU,), future: Maybe[Groups] | None = None, **policies: Any
) -> list[str]:
    groups = tuple(group.members for group in model.iommu.groups) if future is None else future
    return [f"{h.kind} {h.device}" for h in guard(model, taken, groups, Policies(**policies))]


def test_a_gpu_on_its_own_is_free() -> None:
    assert hits(host()) == []


def test_nothing_taken_needs_no_facts() -> None:
    assert hits(host(disks=LOST, interfaces=LOST), taken=()) == []


@pytest.mark.parametrize(("member", "kind"), [(NIC, "network"), (DISK, "disk"), (VGA, "console")])
def test_a_group_shared_now_is_refused(member: str, kind: str) -> None:
    rest = tuple((bdf,) for bdf in (NIC, DISK, VGA) if bdf != member)
    assert hits(host(((GPU, member), *rest))) == [f"{kind} {member}"]


@pytest.mark.parametrize(("member", "kind"), [(NIC, "network"), (DISK, "disk"), (VGA, "console")])
def test_a_group_shared_after_the_boot_is_refused(member: str, kind: str) -> None:
    assert hits(host(), future=((GPU, member),)) == [f"{kind} {member}"]


@pytest.mark.parametrize("member", [NIC, DISK, VGA])
def test_the_device_itself_is_refused(member: str) -> None:
    assert len(hits(host(), taken=(member,))) == 1


def test_without_an_iommu_only_the_device_itself_counts() -> None:
    assert hits(host(())) == []
    assert hits(host(()), taken=(NIC,)) == [f"network {NIC}"]


@pytest.mark.parametrize(
    "parts",
    [
        {"disks": LOST},
        {"interfaces": LOST},
        {"disks": (BlockDevice(name="sda", bdf=LOST, uses=("swap",)),)},
        {"interfaces": (NetworkInterface(name="eno1", bdf=LOST, mac=None, uses=("corosync",)),)},
        {"console": Console(has_bmc=False, boot_vga=LOST, serial=False)},
    ],
)
def test_what_is_not_known_is_refused_with_the_way_to_supply_it(parts: dict[str, Any]) -> None:
    found = guard(host(**parts), (GPU,), (), Policies())
    assert [h.kind for h in found] == ["unknown"]
    assert found[0].supply


def test_an_unknown_future_and_an_unknown_group_are_refused() -> None:
    assert hits(host(), future=LOST) == ["unknown "]
    model = host()
    blind = model.model_copy(update={"pci": tuple(f.model_copy(update={"iommu_group": LOST}) for f in model.pci)})
    assert hits(blind, future=()) == ["unknown "]


def test_idle_disks_and_interfaces_are_free() -> None:
    groups = ((GPU, NIC, DISK), (VGA,))
    idle = host(
        groups,
        disks=(BlockDevice(name="sda", bdf=DISK, uses=()), BlockDevice(name="dm-0", bdf=None, uses=("/",))),
        interfaces=(NetworkInterface(name="eno2", bdf=NIC, mac=None, uses=()),),
    )
    assert hits(idle) == []


@pytest.mark.parametrize(
    ("console", "policy", "refused"),
    [
        (Console(has_bmc=True, boot_vga=GPU, serial=False), "keep", False),
        (Console(has_bmc=False, boot_vga=GPU, serial=True), "keep", False),
        (Console(has_bmc=False, boot_vga=GPU, serial=False), "keep", True),
        (Console(has_bmc=LOST, boot_vga=GPU, serial=False), "keep", True),
        (Console(has_bmc=False, boot_vga=GPU, serial=False), "headless", False),
        (Console(has_bmc=False, boot_vga=GPU, serial=LOST), "serial", False),
        (Console(has_bmc=False, boot_vga=None, serial=False), "keep", False),
        (Console(has_bmc=True, boot_vga=LOST, serial=False), "keep", False),
    ],
)
def test_the_only_console_may_be_given_up_by_policy_alone(console: Console, policy: str, refused: bool) -> None:
    assert bool(hits(host(console=console), console=policy)) is refused


@pytest.mark.parametrize("member", [NIC, DISK])
def test_no_policy_gives_up_network_or_disks(member: str) -> None:
    assert len(hits(host(((GPU, member),)), console="headless")) == 1


def test_the_refusal_names_device_group_and_reason() -> None:
    found = guard(host(((GPU, NIC), (DISK, VGA))), (GPU,), (), Policies())
    with pytest.raises(GuardRefused) as caught:
        refuse("pve1", found)
    assert caught.value.exit_code == 4
    for part in (GPU, NIC, "IOMMU group 0 (now)", "eno1", "default route"):
        assert part in caught.value.message
    assert caught.value.hint.startswith(f"leave that GPU out (gpus: {{all but: [{GPU}]}}), or move")
    assert "policies.console" not in caught.value.hint


def test_the_hint_is_about_every_kind_of_refusal() -> None:
    console = Console(has_bmc=False, boot_vga=GPU, serial=False)
    with pytest.raises(GuardRefused) as caught:
        refuse("pve1", guard(host(((GPU, NIC),), console=console), (GPU,), (), Policies()))
    assert f"all but: [{GPU}]" in caught.value.hint
    assert "accept the loss of the display with policies.console: serial, bmc or headless" in caught.value.hint


def test_no_hit_no_refusal() -> None:
    refuse("pve1", ())


BMC = Console(has_bmc=True, boot_vga=VGA, serial=False, bmc=(VGA,))


@pytest.mark.parametrize(
    ("console", "policy", "refused"),
    [
        (BMC, "keep", True),
        (BMC, "bmc", True),
        (BMC, "headless", False),
        (BMC.model_copy(update={"serial": True}), "keep", False),
        (BMC.model_copy(update={"boot_vga": "0000:00:02.0"}), "keep", False),
        (BMC.model_copy(update={"boot_vga": "0000:00:02.0"}), "bmc", True),
    ],
)
def test_the_display_of_the_bmc_in_a_group_is_the_console(console: Console, policy: str, refused: bool) -> None:
    shared = host(((GPU, VGA), (NIC,), (DISK,)), console=console)
    assert hits(shared, console=policy) == ([f"console {VGA}"] if refused else [])


USB = "0000:41:00.2"


@pytest.mark.parametrize(
    ("keyboards", "serial", "policy", "found"),
    [
        ((USB,), False, "keep", [f"console {USB}"]),
        ((USB, USB), False, "keep", [f"console {USB}"]),
        ((USB,), True, "keep", []),
        ((USB,), False, "headless", []),
        ((USB, None), False, "keep", []),
        ((USB, "0000:00:14.0"), False, "keep", []),
        ((), False, "keep", []),
        (LOST, False, "keep", ["unknown "]),
    ],
)
def test_the_only_keyboard_stays(keyboards: Any, serial: bool, policy: str, found: list[str]) -> None:
    model = host(((GPU, USB), (NIC,), (DISK,), (VGA,)))
    usb = PciFunction(bdf=USB, vendor=0x10DE, device=2, class_code=0x0C0330, iommu_group=0)
    console = Console(has_bmc=False, boot_vga=VGA, serial=serial, keyboards=keyboards)
    assert hits(model.model_copy(update={"pci": (*model.pci, usb), "console": console}), console=policy) == found


def test_keyboards_that_are_not_known_matter_only_where_a_usb_controller_goes() -> None:
    assert hits(host(console=Console(has_bmc=True, boot_vga=VGA, serial=False, keyboards=LOST))) == []


def test_the_physical_function_of_a_virtual_one_carries_the_network_too() -> None:
    model = host()
    virtual = PciFunction(bdf="0000:42:10.0", vendor=0x8086, device=3, class_code=0x020000, physfn=NIC)
    carried = (NetworkInterface(name="eno1v0", bdf=virtual.bdf, mac=None, uses=("default route",)),)
    changed = model.model_copy(update={"pci": (*model.pci, virtual), "interfaces": carried})
    assert hits(changed, taken=(NIC,)) == [f"network {NIC}"]
