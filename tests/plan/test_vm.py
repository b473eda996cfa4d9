"""The configuration of a VM: platform, slots, window, cliques, NUMA, and what is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.errors import Refused
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.inventory.models import Host, Policies
from provision.plan.make import make_plan
from provision.plan.model import Change, Plan, VmSet

PlanFor = Callable[..., Plan]
WithVm = Callable[..., HostModel]
CONVERT = {"vms": {100: {"gpus": "all", "convert": True}}}
CLIQUES = " ".join(f"-set device.hostpci{n}.x-nv-gpudirect-clique=0" for n in range(8))


def vm_change(plan: Plan) -> Change | None:
    return next((c for c in plan.changes if c.id == "vm.100"), None)


def vm_set(plan: Plan) -> VmSet:
    change = vm_change(plan)
    assert change is not None
    assert isinstance(change.operation, VmSet)
    return change.operation


def command_diff(plan: Plan) -> str:
    change = vm_change(plan)
    assert change is not None
    return change.command_diff


def reason(plan: Plan, subject: str) -> str:
    return next(u.reason for u in plan.unchanged if u.subject == f"VM 100 {subject}")


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        (None, "host"),
        ("kvm64", "host"),
        ("x86-64-v2-AES,flags=+aes;-pcid", "host,flags=+aes;-pcid"),
        ("cputype=qemu64,phys-bits=host", "host,phys-bits=host"),
        ("host,hidden=1", "host"),
        ("host,hidden=1,flags=+pdpe1gb", "host,flags=+pdpe1gb"),
        ("kvm64,hidden=1", "host"),
        ("host,flags=+pdpe1gb", None),
        ("custom-gpu", None),
        ("host,,=x", None),
    ],
)
def test_the_cpu_is_the_hosts_and_hides_nothing(
    epyc: HostModel, plan_for: PlanFor, with_vm: WithVm, cpu: str | None, expected: str | None
) -> None:
    model = with_vm(epyc, {"cpu": cpu} if cpu else {}, ("cpu",) if cpu is None else ())
    assert vm_set(plan_for(model)).set.get("cpu") == expected


@pytest.mark.parametrize(
    ("version", "machine", "expected"),
    [
        ("9.0.11", "q35", "pc-q35-10.0"),
        ("8.4.1", "q35", "pc-q35-9.2"),
        ("9.2.1", "q35,viommu=virtio", "pc-q35-11.0,viommu=virtio"),
        ("9.0.11", "pc-q35-9.2+pve1", None),
        ("7.4-3", "q35", None),
        (Unknown(unknown="not read"), "q35", None),
        (None, "q35", None),
    ],
)
def test_the_machine_version_is_pinned_where_it_is_known(
    epyc: HostModel, plan_for: PlanFor, with_vm: WithVm, version: Any, machine: str, expected: str | None
) -> None:
    model = with_vm(epyc, {"machine": machine})
    model = model.model_copy(update={"proxmox": model.proxmox.model_copy(update={"version": version})})
    plan = plan_for(model)
    assert vm_set(plan).set.get("machine") == expected
    if expected is None and machine == "q35":
        assert "unpinned" in reason(plan, "machine version")


def test_firmware_and_machine_type_change_by_convert_alone(epyc: HostModel, plan_for: PlanFor, with_vm: WithVm) -> None:
    model = with_vm(epyc, {}, ("bios", "machine", "efidisk0"))
    kept = vm_set(plan_for(model))
    assert not {"bios", "machine", "efidisk0"} & set(kept.set)
    assert kept.set["hostpci0"] == "mapping=gpu-0"
    assert "i440fx" in reason(plan_for(model), "machine type")
    changed = vm_set(plan_for(model, CONVERT)).set
    assert changed["bios"] == "ovmf"
    assert changed["machine"] == "pc-q35-10.0"
    assert changed["efidisk0"] == "local-lvm:1,efitype=4m,pre-enrolled-keys=0"
    assert changed["hostpci0"] == "mapping=gpu-0,pcie=1"


def test_without_a_storage_for_its_variables_the_firmware_stays(
    epyc: HostModel, plan_for: PlanFor, with_vm: WithVm
) -> None:
    plan = plan_for(with_vm(epyc, {}, ("bios", "efidisk0", "scsi0")), CONVERT)
    assert "bios" not in vm_set(plan).set
    assert any("efidisk0 first" in warning for warning in plan.warnings)


def test_kvm_off_leaves_args_and_the_rest_stays(epyc: HostModel, plan_for: PlanFor, with_vm: WithVm) -> None:
    model = with_vm(epyc, {"args": "-foo 'a b' -cpu host,kvm=off,hv_vendor_id=x -bar"})
    plan = plan_for(model)
    assert vm_set(plan).set["args"] == "-foo 'a b' -bar"
    change = vm_change(plan)
    assert change is not None
    assert change.privilege == "ticket"
    assert "args" not in vm_set(plan_for(with_vm(epyc, {"args": "-cpu host,+x"}))).set


def test_args_with_an_open_quote_are_left_alone(epyc: HostModel, plan_for: PlanFor, with_vm: WithVm) -> None:
    plan = plan_for(with_vm(epyc, {"args": "-foo 'a"}), p2p="prove")
    assert "args" not in vm_set(plan).set
    assert any("args is left alone" in warning for warning in plan.warnings)


def test_options_of_a_slot_stay(epyc: HostModel, plan_for: PlanFor, with_vm: WithVm) -> None:
    slot = {"hostpci0": "mapping=rtx6000,pcie=1,rombar=0,x-vga=1"}
    assert vm_set(plan_for(with_vm(epyc, slot))).set["hostpci0"] == "mapping=gpu-0,pcie=1,rombar=0"
    desktop = with_vm(epyc, {**slot, "ostype": "win11"})
    assert vm_set(plan_for(desktop)).set["hostpci0"] == "mapping=gpu-0,pcie=1,rombar=0,x-vga=1"
    proving = vm_set(plan_for(with_vm(epyc, slot), p2p="prove"))
    assert proving.set["hostpci0"] == "mapping=gpu-0,pcie=1,rombar=0"


def test_cliques_come_by_policy_and_go_with_it(epyc: HostModel, plan_for: PlanFor, with_vm: WithVm) -> None:
    assert vm_set(plan_for(epyc, p2p="prove")).set["args"] == CLIQUES
    model = with_vm(epyc, {"args": f"-foo {CLIQUES} -set device.hostpci9.x-nv-gpudirect-clique=3"})
    assert vm_set(plan_for(model)).set["args"] == "-foo"
    assert vm_set(plan_for(model, p2p="prove")).set["args"] == f"-foo {CLIQUES}"
    plan = plan_for(epyc, {"vms": {100: {"gpus": "all", "guest": {"address": "192.0.2.1"}}}}, p2p="prove")
    assert [e.expected for e in plan.expectations if e.check == "guest-p2p"] == ["prove"]


@pytest.mark.parametrize(("device", "words"), [(0x2684, "GeForce"), (0x0001, "does not know")])
def test_no_clique_for_geforce_nor_for_the_unknown(epyc: HostModel, plan_for: PlanFor, device: int, words: str) -> None:
    functions = tuple(f.model_copy(update={"device": device}) if f.is_nvidia_gpu else f for f in epyc.pci)
    empty = epyc.proxmox.model_copy(update={"mappings": ()})
    plan = plan_for(epyc.model_copy(update={"pci": functions, "proxmox": empty}), p2p="prove")
    assert "args" not in vm_set(plan).set
    assert any(words in u.reason for u in plan.unchanged)


def test_a_single_gpu_has_no_pair(epyc: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(epyc, {"vms": {100: {"gpus": {"count": 1}}}}, p2p="prove")
    assert "args" not in vm_set(plan).set
    assert any("no pair" in u.reason for u in plan.unchanged)


def test_each_model_is_a_clique_of_its_own(epyc: HostModel, plan_for: PlanFor) -> None:
    other = {gpu.bdf for gpu in epyc.gpus()[:4]}
    functions = tuple(f.model_copy(update={"device": 0x2BB1}) if f.bdf in other else f for f in epyc.pci)
    empty = epyc.proxmox.model_copy(update={"mappings": ()})
    args = vm_set(plan_for(epyc.model_copy(update={"pci": functions, "proxmox": empty}), p2p="prove")).set["args"]
    cliques = [word.rpartition("=")[2] for word in args.split()[1::2]]
    assert cliques == ["0"] * 4 + ["1"] * 4


def bits(model: HostModel, value: Any) -> HostModel:
    return model.model_copy(update={"kernel": model.kernel.model_copy(update={"phys_bits": value})})


def test_cpu_host_gives_the_window_by_itself(epyc: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(epyc)
    assert "args" not in vm_set(plan).set
    assert "nothing to set" in reason(plan, "MMIO window")


def test_a_small_window_is_widened_or_said_to_be_impossible(epyc: HostModel, plan_for: PlanFor) -> None:
    args = vm_set(plan_for(bits(epyc, 43))).set["args"]
    assert args == "-fw_cfg name=opt/ovmf/X-PciMmio64Mb,string=2097152"
    plan = plan_for(bits(epyc, 39))
    assert "args" not in vm_set(plan).set
    assert any("too few address bits" in warning for warning in plan.warnings)


def test_an_unknown_window_is_said(epyc: HostModel, plan_for: PlanFor) -> None:
    assert "not checked" in reason(plan_for(bits(epyc, Unknown(unknown="not read"))), "MMIO window")
    blind = tuple(f.model_copy(update={"bars": Unknown(unknown="denied")}) if f.is_nvidia_gpu else f for f in epyc.pci)
    assert "denied" in reason(plan_for(epyc.model_copy(update={"pci": blind})), "MMIO window")


def test_numa_nodes_and_huge_pages(epyc: HostModel, plan_for: PlanFor) -> None:
    values = vm_set(plan_for(epyc, numa="pin", hugepages="1G")).set
    assert values["numa"] == "1"
    assert values["numa0"] == "cpus=0-55,hostnodes=0,memory=262144,policy=bind"
    assert values["numa1"] == "cpus=56-111,hostnodes=1,memory=262144,policy=bind"
    assert values["affinity"] == "0-31,64-95,32-63,96-127"
    assert values["hugepages"] == "1024"
    one = vm_set(plan_for(epyc, {"vms": {100: {"gpus": {"count": 4}}}}, numa="pin")).set
    assert one["numa0"] == "cpus=0-111,hostnodes=0,memory=524288,policy=bind"
    assert "hugepages" not in one


@pytest.mark.parametrize(
    ("node", "config", "words"),
    [
        (None, {}, "firmware gives no NUMA node"),
        (Unknown(unknown="denied"), {}, "denied"),
        (0, {"memory": "0"}, "do not divide"),
    ],
)
def test_numa_is_not_pinned_on_a_guess(
    epyc: HostModel, plan_for: PlanFor, with_vm: WithVm, node: Any, config: dict[str, str], words: str
) -> None:
    model = with_vm(epyc, config)
    functions = tuple(f.model_copy(update={"numa_node": node}) if f.is_nvidia_gpu else f for f in model.pci)
    plan = plan_for(model.model_copy(update={"pci": functions}), numa="pin", hugepages="1G")
    assert "numa0" not in vm_set(plan).set
    assert words in reason(plan, "NUMA")
    assert not any("hugepages" in e.expected for e in plan.expectations)


def test_huge_pages_never_starve_the_host(epyc: HostModel, plan_for: PlanFor) -> None:
    kernel = epyc.kernel.model_copy(update={"numa_memory": {0: 2**40, 1: 257 * 2**30}})
    plan = plan_for(epyc.model_copy(update={"kernel": kernel}), numa="pin", hugepages="1G")
    assert any("tenth of its memory on node 1" in warning for warning in plan.warnings)
    assert "hugepages" not in vm_set(plan).set


def test_huge_pages_need_pinned_nodes(epyc: HostModel, plan_for: PlanFor) -> None:
    plan = plan_for(epyc, hugepages="1G")
    assert "hugepages" not in vm_set(plan).set
    assert any("numa: pin" in warning for warning in plan.warnings)


def test_pending_changes_of_someone_else_are_said(epyc: HostModel, plan_for: PlanFor, with_vm: WithVm) -> None:
    plan = plan_for(with_vm(epyc, pending={"memory": "1024"}, pending_delete=("vga",)))
    assert any("memory (to be 1024), vga (to be removed) wait" in warning for warning in plan.warnings)


def test_a_step_meets_pending_values_as_live_ones(epyc: HostModel, plan_for: PlanFor, with_vm: WithVm) -> None:
    model = with_vm(epyc, pending={"balloon": "2048"}, pending_delete=("cpu",), status="running")
    operation = vm_set(plan_for(model))
    assert (operation.before["balloon"], operation.before["cpu"]) == ("2048", None)


def test_what_a_refused_write_left_on_a_stopped_vm_is_refused(
    epyc: HostModel, plan_for: PlanFor, with_vm: WithVm
) -> None:
    with pytest.raises(Refused, match="balloon pending although it is stopped") as caught:
        plan_for(with_vm(epyc, pending={"balloon": "2048"}))
    assert "qm set 100 --revert balloon" in caught.value.hint


@pytest.mark.parametrize(("policy", "value"), [("on", "1"), ("off", "0"), ("keep", None)])
def test_onboot(epyc: HostModel, plan_for: PlanFor, with_vm: WithVm, policy: str, value: str | None) -> None:
    present = "0" if policy == "on" else "1"
    plan = plan_for(with_vm(epyc, {"onboot": present}), onboot=policy)
    change = next((c for c in plan.changes if c.id == "vm.100.onboot"), None)
    assert (change.operation.set if change else None) == ({"onboot": value} if value else None)  # type: ignore[union-attr]
    if change:
        assert change.depends_on == ("vm.100",)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("-cpu host,hv_vendor_id=abc -foo", "-foo"),
        ("-cpu 'host,-hypervisor' -foo  'a b'", "-foo  'a b'"),
        ("-cpu EPYC,+x", None),
    ],
)
def test_a_cpu_in_args_that_hides_goes_and_the_other_words_stay(
    epyc: HostModel, plan_for: PlanFor, with_vm: WithVm, args: str, expected: str | None
) -> None:
    plan = plan_for(with_vm(epyc, {"args": args}))
    assert vm_set(plan).set.get("args") == expected
    if expected is None:
        assert any("replaces cpu: host" in warning for warning in plan.warnings)


def test_the_folklore_of_cpu_goes_with_its_reason(epyc: HostModel, plan_for: PlanFor, with_vm: WithVm) -> None:
    plan = plan_for(with_vm(epyc, {"cpu": "host,hidden=1,hv-vendor-id=abc"}))
    assert vm_set(plan).set["cpu"] == "host"
    change = vm_change(plan)
    assert change is not None
    assert "hidden=1 goes" in change.reason
    assert "hv-vendor-id goes" in change.reason


@pytest.mark.parametrize(
    ("config", "words"),
    [({"machine": "q35,viommu=intel"}, "virtual IOMMU"), ({"cpu": "custom-gpu"}, "custom CPU model")],
)
def test_no_clique_where_the_guest_would_not_see_it(
    epyc: HostModel, plan_for: PlanFor, with_vm: WithVm, config: dict[str, str], words: str
) -> None:
    plan = plan_for(with_vm(epyc, config), p2p="prove")
    assert "args" not in vm_set(plan).set
    assert words in reason(plan, "P2P")


def test_no_clique_for_virtual_functions(epyc: HostModel, plan_for: PlanFor) -> None:
    functions = tuple(f.model_copy(update={"physfn": "0000:01:00.0"}) if f.is_nvidia_gpu else f for f in epyc.pci)
    plan = plan_for(epyc.model_copy(update={"pci": functions}), p2p="prove")
    assert "args" not in vm_set(plan).set


def test_a_grant_to_every_device_goes(epyc: HostModel, plan_for: PlanFor, with_vm: WithVm) -> None:
    model = with_vm(epyc, {"args": "-global vfio-pci.x-nv-gpudirect-clique=0 -foo"})
    assert vm_set(plan_for(model)).set["args"] == "-foo"
    assert vm_set(plan_for(model, p2p="prove")).set["args"] == f"-foo {CLIQUES}"


def test_address_bits_that_leave_too_little_room_go(epyc: HostModel, plan_for: PlanFor, with_vm: WithVm) -> None:
    assert vm_set(plan_for(with_vm(epyc, {"cpu": "host,phys-bits=40"}))).set["cpu"] == "host"
    assert "cpu" not in vm_set(plan_for(with_vm(epyc, {"cpu": "host,phys-bits=52"}))).set


def test_keys_in_the_efi_variables_are_said(epyc: HostModel, plan_for: PlanFor, with_vm: WithVm) -> None:
    plan = plan_for(with_vm(epyc, {"efidisk0": "local-lvm:vm-100-disk-0,efitype=4m,pre-enrolled-keys=1"}))
    assert any("Secure Boot" in warning for warning in plan.warnings)


def test_onboot_comes_after_the_mapping_unit(epyc: HostModel, plan_for: PlanFor, with_vm: WithVm) -> None:
    plan = plan_for(with_vm(epyc, {"onboot": "0"}), onboot="on", mapping_unit="repair")
    change = next(c for c in plan.changes if c.id == "vm.100.onboot")
    units = [c.id for c in plan.changes if c.id.startswith("mapping-unit.")]
    assert units
    assert set(units) <= set(change.depends_on)


def test_the_command_line_before_and_after(epyc: HostModel, plan_for: PlanFor, with_vm: WithVm) -> None:
    diff = command_diff(plan_for(epyc)).splitlines()
    assert diff[0].startswith("# now Proxmox refuses to start it: PCI device mapping invalid")
    assert diff[1:3] == ["- -cpu qemu64,+aes,enforce,...,+pni,+popcnt,+sse4.1,+sse4.2,+ssse3", "+ -cpu host,..."]
    assert diff[-1] == "+ -machine ...,type=pc-q35-10.0+pve0"
    proving = command_diff(plan_for(epyc, p2p="prove"))
    assert "+ -set device.hostpci7.x-nv-gpudirect-clique=0" in proving


def test_the_command_line_of_now_is_what_showcmd_printed(epyc: HostModel) -> None:
    host = Host.model_validate({"address": "local", "vms": {100: {"gpus": "all"}}})
    shown = "/usr/bin/kvm -id 100 -smp 1,sockets=1 -cpu x,+y -m 1 -machine type=q35+pve0 -foo 'a b'"

    def diff(text: str) -> list[str]:
        plan = make_plan("pve1", epyc, host, Policies(), identities={}, version="0.1.0", commands={100: text})
        return command_diff(plan).splitlines()

    lines = diff(shown)
    assert lines[0].startswith("# qm showcmd differs from what pvectl predicts for now in ")
    assert "- -cpu x,+y" in lines
    assert "- -foo 'a b'" in lines
    assert diff("PCI device mapping not found for 'x'\n")[0].endswith("PCI device mapping not found for 'x'")
