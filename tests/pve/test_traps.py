"""The numbered traps of Proxmox' behaviour, one test each; those of whole plans are in tests/plan."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import ValidationError

from provision.apply import actions
from provision.apply.objects import needs_stop
from provision.boot.loader import LoaderFacts, decide_loader
from provision.boot.systemd_boot import KernelCmdlineFile
from provision.errors import ApplyStopped, GuestLocked, PveError, StaleDigest, TaskFailed
from provision.pci.identity import identity
from provision.pci.kernel_options import KernelOptions
from provision.pci.model import ConfigSpace, Identity, PciFunction
from provision.plan.model import MappingPut, VmSet
from provision.pve import mapping_unit
from provision.pve.answers import Answer, OutcomeUnknown, refusal
from provision.pve.args import Args
from provision.pve.args_words import ArgsReading
from provision.pve.conflicts import conflicts
from provision.pve.least_role import commands, grants
from provision.pve.mapping import MappingFile, entry_text, parse_entry
from provision.pve.mapping_check import check, paths
from provision.pve.mapping_repair import repair
from provision.pve.model import PciMapping
from provision.pve.objects import PveObjects
from provision.pve.privileges import least, missing, needs, option_needs
from provision.pve.start_timeout import start_timeout_of
from provision.pve.tasks import Clock
from provision.pve.vm_config import VmConfigFile, hostpci_slots

UPID = "UPID:pve1:0000014A:0004643D:6B0C8600:qmstart:100:root@pam!pvectl:"
GOOD = "id=10de:2bb5,iommugroup=12,node=pve1,path=0000:41:00.0,subsystem-id=10de:204e"
EVERYTHING = {"/": ["Mapping.Modify", "Mapping.Use", "VM.Config.HWType", "VM.Config.Options", "Sys.Audit"]}


def gpu(bus: int = 0x41, group: int | None = 12, dsn: str | None = None, device: int = 0x2BB5) -> PciFunction:
    return PciFunction(
        bdf=f"0000:{bus:02x}:00.0",
        vendor=0x10DE,
        device=device,
        class_code=0x030200,
        subsystem_vendor=0x10DE,
        subsystem_device=0x204E,
        root=f"pci0000:{bus:02x}",
        root_acpi_path=f"\\_SB_.S{bus:02X}",
        iommu_group=group,
        mediated=False,
        config=ConfigSpace(
            length=4096,
            header_type=0,
            port_type="endpoint",
            acs=None,
            dsn=dsn,
            has_flr=True,
            sriov_total_vfs=None,
            rebar=True,
            clique=None,
        ),
    )


def mapping(*entries: str) -> PciMapping:
    return MappingFile.parse("gpus\n" + "".join(f"\tmap {entry}\n" for entry in entries)).mappings[0]


def said(entry: str, *functions: PciFunction) -> list[str]:
    found = check(mapping(entry), "pve1", functions or [gpu()])
    return [message.message.removeprefix("Invalid configuration: ").strip() for message in found]


def repaired(entry: str, function: PciFunction | None = None) -> str:
    one = function or gpu()
    group = one.iommu_group
    assert group is None or isinstance(group, int)
    return repair(mapping(entry), "pve1", [one], {}, {one.bdf: group}).new_entries[0]


class FakeCaller:
    """Answers by verb and path: a value, an error to raise, or a list of them one after another."""

    way: Literal["api", "shell"] = "api"
    is_root = False
    where = "pve1"

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.table = dict(table)
        self.asked: list[tuple[str, str, dict[str, Any]]] = []

    def call(self, verb: str, path: str, params: Any, *, action: str, timeout: float | None = None) -> Any:
        self.asked.append((verb, path, dict(params)))
        found = self.table[f"{verb} {path}"]
        if isinstance(found, list) and found and isinstance(found[0], (Exception, tuple)):
            found = found.pop(0) if len(found) > 1 else found[0]
            found = found[0] if isinstance(found, tuple) else found
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def pve(clock: Clock) -> Callable[[Mapping[str, Any]], tuple[PveObjects, FakeCaller]]:
    def make(table: Mapping[str, Any]) -> tuple[PveObjects, FakeCaller]:
        caller = FakeCaller(table)
        return PveObjects(caller, "pve1", clock=clock), caller

    return make


Make = Callable[[Mapping[str, Any]], tuple[PveObjects, FakeCaller]]


@pytest.mark.parametrize("key", ["args", "hugepages", "affinity", "hookscript", "lock"])
def test_trap_01_a_token_of_root_is_not_root(key: str) -> None:
    found = option_needs(100, key, "x", None)
    assert least(found) == "ticket"
    assert missing(found, EVERYTHING, "token")
    error = refusal("change VM 100", "pve1", Answer(500, f"only root can set '{key}' config", {}))
    assert "a token of root@pam is not root@pam" in error.hint
    assert least(option_needs(100, "hostpci0", "mapping=a,romfile=x", None)) == "ticket"


def test_trap_02_the_old_raw_value_is_checked_too() -> None:
    assert least(option_needs(100, "hostpci0", "mapping=gpu-0", "0000:41:00.0")) == "ticket"
    assert least(option_needs(100, "hostpci0", None, "0000:41:00.0")) == "ticket"
    assert least(option_needs(100, "hostpci0", "mapping=gpu-0", "mapping=gpu-1")) == "token"


def test_trap_03_a_subsystem_is_needed_where_the_hardware_has_one() -> None:
    short = GOOD.replace(",subsystem-id=10de:204e", "")
    assert said(short) == ["missing expected property 'subsystem-id' for device '0000:41:00.0'"]
    assert "subsystem-id=10de:204e" in repaired(short)


def test_trap_04_the_documented_example_does_not_validate() -> None:
    example = "id=10de:2bb5,node=pve1,path=0000:41:00.0"
    assert said(example) == ["missing expected property 'iommugroup' for device '0000:41:00.0'"]
    assert said(repaired(example)) == []


def test_trap_05_values_of_the_hardware_list_are_not_those_of_an_entry() -> None:
    assert parse_entry(GOOD.replace("10de:2bb5", "0x10de:0x2bb5")) is None
    with pytest.raises(ValueError, match="no mapping entry"):
        entry_text("pve1", "0000:41:00.0", "0x10de:0x2bb5", "10de:204e", 12)
    minus = GOOD.replace("iommugroup=12", "iommugroup=-1")
    assert said(minus) == ["'iommugroup' does not match for 'gpus' (12 != -1)"]
    assert said(repaired(minus)) == []


def test_trap_06_upper_case_never_matches() -> None:
    upper = GOOD.replace("10de:2bb5", "10DE:2BB5")
    assert said(upper) == ["'id' does not match for 'gpus' (10de:2bb5 != 10DE:2BB5)"]
    assert said(repaired(upper)) == []
    assert "10DE" not in entry_text("pve1", "0000:41:00.0", "10DE:2BB5", "10DE:204E", 12)


def test_trap_07_a_list_in_one_entry_is_one_bundle() -> None:
    bundle = parse_entry(GOOD.replace("0000:41:00.0", "0000:41:00.0;0000:61:00.0"))
    assert bundle is not None
    assert paths(bundle) == ("0000:41:00.0", "0000:61:00.0")
    hosts = [gpu(0x41), gpu(0x61, 13)]
    result = repair(mapping(bundle.raw), "pve1", hosts, {}, {"0000:41:00.0": 12, "0000:61:00.0": 13})
    assert [entry.bdfs for entry in result.entries] == [("0000:41:00.0", "0000:61:00.0")]
    assert len(mapping(GOOD, GOOD.replace(":41:", ":61:")).entries) == 2, "alternatives are entries of their own"


def test_trap_08_one_stale_entry_spoils_the_whole_mapping() -> None:
    stale = GOOD.replace(":41:", ":61:").replace("=12", "=99")
    hosts = [gpu(0x41), gpu(0x61, 13)]
    assert [c.severity for c in check(mapping(GOOD, stale), "pve1", hosts)] == ["error"]
    result = repair(mapping(GOOD, stale), "pve1", hosts, {}, {"0000:41:00.0": 12, "0000:61:00.0": 13})
    assert [entry.kind for entry in result.entries] == ["valid", "group-only"]
    assert check(mapping(*result.new_entries), "pve1", hosts) == ()


def test_trap_09_a_write_replaces_the_entries_of_all_nodes(pve: Make) -> None:
    other = GOOD.replace("pve1", "pve2")
    result = repair(mapping(other, GOOD.replace("=12", "=9")), "pve1", [gpu()], {}, {"0000:41:00.0": 12})
    assert result.new_entries[0] == other
    session, caller = pve({"set /cluster/mapping/pci/gpus": None})
    session.mapping_update("gpus", result.new_entries, "digest")
    assert caller.asked[0][2]["map"] == result.new_entries
    with pytest.raises(ValidationError):
        MappingPut(id="gpus", entries=(), before=(GOOD,))


@pytest.mark.parametrize(
    "text",
    [
        "update hardware mapping failed: detected modified configuration - file changed by other user? Try again.",
        "checksum mismatch (file change by other user?)",
    ],
)
def test_trap_10_a_stale_digest_has_two_texts(text: str) -> None:
    assert isinstance(refusal("write", "pve1", Answer(500, text, {})), StaleDigest)


def test_trap_11_proxmox_takes_a_mapping_of_hardware_that_is_not_there() -> None:
    absent = GOOD.replace(":41:", ":99:")
    assert parse_entry(absent) is not None
    assert said(absent) == ["pci device '0000:99:00.0' not found"]


def test_trap_12_delete_has_no_digest_and_needs_the_folder(pve: Make) -> None:
    session, caller = pve({"delete /cluster/mapping/pci/gpus": None})
    session.mapping_delete("gpus")
    assert caller.asked == [("delete", "/cluster/mapping/pci/gpus", {})]
    assert {need.path for op in ("mapping.create", "mapping.delete") for need in needs(op, mapping="gpus")} == {
        "/mapping/pci"
    }
    assert needs("mapping.update", mapping="gpus")[0].path == "/mapping/pci/gpus"


def test_trap_13_pveadmin_cannot_write_mappings() -> None:
    found = needs("mapping.create")
    assert missing(found, {"/": ["Mapping.Use", "Mapping.Audit", "VM.Config.HWType"]}, "token") == found
    text = "\n".join(commands(grants(found), user="gpu@pve", token="pvectl"))
    assert "--privs Mapping.Modify" in text
    assert "PVEAdmin" not in text


def ended(exitstatus: str, log: tuple[str, ...] = ("TASK OK",)) -> dict[str, Any]:
    base = f"get /nodes/pve1/tasks/{UPID}"
    return {
        "create /nodes/pve1/qemu/100/status/start": UPID,
        f"{base}/status": {"status": "stopped", "exitstatus": exitstatus},
        f"{base}/log": [{"n": n, "t": line} for n, line in enumerate(log, start=1)],
    }


@pytest.mark.parametrize(("exitstatus", "ok"), [("OK", True), ("WARNINGS: 3", True), ("unexpected status", False)])
def test_trap_15_warnings_are_success(pve: Make, exitstatus: str, ok: bool) -> None:
    assert pve(ended(exitstatus))[0].vm_start(100, timeout=60).ok is ok


def test_trap_16_the_exit_status_is_one_line_of_the_error(pve: Make) -> None:
    log = ("kvm: -device vfio-pci: first", "second line", "TASK ERROR: start failed: QEMU exited with code 1")
    result = pve(ended("start failed: QEMU exited with code 1", log))[0].vm_start(100, timeout=60)
    assert result.log_tail == log


def test_trap_17_a_start_may_take_more_than_an_hour(pve: Make) -> None:
    seconds = start_timeout_of({"memory": str(1536 * 1024), "hostpci0": "mapping=gpu-0", "net0": "virtio"})
    assert seconds == 6149
    table = ended("OK")
    options = {"memory": str(1536 * 1024), "hostpci0": "mapping=gpu-0", "net0": "virtio", "digest": "d"}
    table |= {"get /nodes/pve1/qemu/100/config": options, "get /nodes/pve1/qemu/100/pending": ()}
    table[f"get /nodes/pve1/tasks/{UPID}/status"] = {"status": "running"}
    with pytest.raises(TaskFailed, match=f"not ended within {seconds + 600} s"):
        pve(table)[0].vm_start(100)


def test_trap_18_the_lock_of_a_starting_vm_times_out() -> None:
    text = "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout"
    assert "another task holds the lock" in refusal("change VM 100", "pve1", Answer(500, text, {})).hint
    locked = refusal("change VM 100", "pve1", Answer(500, "VM is locked (backup)", {}))
    assert isinstance(locked, GuestLocked)
    held = refusal("start VM 100", "pve1", Answer(500, "VM is locked (create)", {}))
    assert isinstance(held, GuestLocked)
    assert "mapping unit held it back" in held.hint
    assert "qm unlock" in held.hint


def test_trap_19_a_write_without_an_answer_still_happens(pve: Make) -> None:
    rows = [({"id": "gpus", "map": [], "digest": "d"},), ({"id": "gpus", "map": [GOOD], "digest": "e"},)]
    table = {
        "set /cluster/mapping/pci/gpus": OutcomeUnknown("no answer", "", 596),
        "get /cluster/mapping/pci": [([row[0]],) for row in rows],
    }
    session, caller = pve(table)
    session.mapping_update("gpus", (GOOD,), "d")
    assert [verb for verb, *_ in caller.asked] == ["set", "get", "get"]


def test_trap_20_pending_is_shown_as_pending(pve: Make) -> None:
    base = "get /nodes/pve1/qemu/100"
    pending = [{"key": "hostpci0", "value": "mapping=a", "pending": "mapping=b"}, {"key": "args", "delete": 1}]
    session, _ = pve({f"{base}/config": {"hostpci0": "mapping=b", "digest": "d"}, f"{base}/pending": pending})
    assert session.vm_config(100).pending == {"hostpci0": "mapping=b", "args": None}
    assert needs_stop(VmSet(vmid=100, set={"hostpci0": "mapping=b"}, before={"hostpci0": None}))


def test_trap_21_set_cannot_reach_a_function_with_a_dotted_id() -> None:
    (one,) = ArgsReading.of(Args.parse("-set device.hostpci0.0.x-nv-gpudirect-clique=0")).device_sets
    assert (one.id, one.property) == ("hostpci0", "0.x-nv-gpudirect-clique")


def test_trap_25_the_hardware_list_needs_sys_audit_on_the_root() -> None:
    (need,) = needs("hardware.list", node="pve1")
    assert (need.path, need.privilege.split("|")[0]) == ("/", "Sys.Audit")
    (grant,) = grants([need])
    assert (grant.path, grant.privileges, grant.propagate) == ("/", ("Sys.Audit",), False)


def test_trap_26_a_bare_name_is_an_address_and_no_mapping() -> None:
    (slot,) = hostpci_slots({"hostpci0": "gpu-0,pcie=1"})
    assert (slot.host, slot.mapping) == ("gpu-0", None)


def test_trap_31_the_file_of_systemd_boot_proves_no_boot_loader() -> None:
    status = "System currently booted with uefi\nAAAA-BBBB is configured with: grub (versions: 6.14.8-2-pve)\n"
    running = "BOOT_IMAGE=/boot/vmlinuz-6.14.8-2-pve root=ZFS=rpool/ROOT/pve-1"
    facts = LoaderFacts(boot_uuids="AAAA-BBBB\n", tool_status=status, running_cmdline=running, root_type="zfs")
    assert decide_loader(facts).kind == "grub-pbt"
    uefi = status.replace("grub", "uefi")
    systemd = LoaderFacts(boot_uuids="AAAA-BBBB\n", tool_status=uefi, running_cmdline="initrd=\\EFI\\proxmox\\x root=x")
    assert decide_loader(systemd).kind == "systemd-boot", "uefi in its output means systemd-boot"


def test_trap_32_only_the_first_line_counts_and_needs_its_root() -> None:
    file = KernelCmdlineFile.parse("root=ZFS=rpool/ROOT/pve-1 quiet\niommu=pt\n")
    assert file.cmdline.all("iommu") == ()
    assert file.has_root
    assert not KernelCmdlineFile.parse("quiet\nroot=x\n").has_root


def test_trap_33_refresh_that_skips_an_esp_is_no_success() -> None:
    text = "WARN: /dev/disk/by-uuid/CCCC-DDDD does not exist - clean '/etc/kernel/proxmox-boot-uuids'! - skipping"
    with pytest.raises(ApplyStopped, match="skipping"):
        actions._refuse_skipped(("proxmox-boot-tool", "refresh"), "pve1", text)


def test_trap_34_the_override_is_spelt_pcie() -> None:
    assert KernelOptions.from_cmdline("pci_acs_override=downstream", "AuthenticAMD").acs_override == frozenset()
    assert KernelOptions.from_cmdline("pcie_acs_override=downstream", "AuthenticAMD").acs_override == {"downstream"}


def test_trap_35_a_missing_vm_is_a_500_with_its_text() -> None:
    text = "Configuration file 'nodes/pve1/qemu-server/999.conf' does not exist"
    error = refusal("read VM 999", "pve1", Answer(500, text, {}))
    assert (error.status, text in error.message) == (500, True)


def test_trap_36_the_start_of_a_highly_available_vm_only_files_a_request(pve: Make) -> None:
    upid = UPID.replace("qmstart", "hastart")
    table = {key.replace(UPID, upid): value for key, value in ended("OK").items()}
    table["create /nodes/pve1/qemu/100/status/start"] = upid
    table["get /nodes/pve1/qemu/100/status/current"] = [({"status": "stopped"},), ({"status": "running"},)]
    session, caller = pve(table)
    assert session.vm_start(100, timeout=60).ok
    assert [path for _, path, _ in caller.asked].count("/nodes/pve1/qemu/100/status/current") == 2


@pytest.mark.parametrize(
    "text",
    [
        "cluster not ready - no quorum?",
        "update hardware mapping failed: cfs-lock 'file-mapping_pci_cfg' error: no quorum!",
        "unable to open file '/etc/pve/nodes/pve1/qemu-server/100.conf.tmp.1' - Permission denied",
    ],
)
def test_trap_37_no_quorum_has_three_texts(text: str) -> None:
    assert "the cluster has no quorum" in refusal("write", "pve1", Answer(500, text, {})).hint


def test_trap_38_a_single_node_is_quorate(pve: Make) -> None:
    alone, lost = [{"type": "node", "name": "pve1"}], [{"type": "cluster", "quorate": 0}]
    assert pve({"get /cluster/status": alone})[0].quorate()
    assert not pve({"get /cluster/status": lost})[0].quorate()


def test_trap_39_a_reboot_answers_at_once_without_a_task(pve: Make) -> None:
    session, caller = pve({"create /nodes/pve1/status": None})
    session.node_reboot()
    assert caller.asked == [("create", "/nodes/pve1/status", {"command": "reboot"})]


def test_trap_40_an_option_goes_into_the_live_section() -> None:
    text = "cores: 4\n\n[PENDING]\nmemory: 8\n\n[snap]\ncores: 2\n"
    changed = VmConfigFile.parse(text).set("args", "-x")
    assert changed.render() == "args: -x\n" + text
    assert changed.snapshots["snap"] == {"cores": "2"}


def test_trap_42_a_backup_of_a_stopped_vm_takes_its_devices() -> None:
    whole, one = {"hostpci0": "41:00,pcie=1"}, {"hostpci3": "0000:41:00.0"}
    (found,) = conflicts({100: whole, 101: one, 102: {"hostpci0": "61:00.0"}})
    assert (found.subject, found.vmids) == ("0000:41:00", (100, 101))
    assert "a backup of a stopped one starts it with its devices" in found.text
    (mapped,) = conflicts({100: {"hostpci0": "mapping=gpus"}, 101: one}, [mapping(GOOD)], "pve1")
    assert mapped.vmids == (100, 101)
    assert conflicts({100: {"hostpci0": "mapping=nobody-knows"}, 101: one}) == ()
    pool = mapping(GOOD, GOOD.replace(":41:", ":61:"))
    two = {"hostpci0": "mapping=gpus", "hostpci1": "mapping=gpus"}
    (short,) = conflicts({100: two, 101: {"hostpci0": "mapping=gpus"}}, [pool], "pve1")
    assert (short.subject, "3 slots want one of the 2" in short.text) == ("mapping gpus", True)
    assert conflicts({100: two}, [pool], "pve1") == ()


def test_trap_43_a_gpu_is_known_by_who_it_is_and_not_by_its_bus() -> None:
    before = [gpu(0x41, 12, "0" * 15 + "a"), gpu(0x61, 13, "0" * 15 + "b")]
    after = [gpu(0x41, 12, "0" * 15 + "b"), gpu(0x61, 13, "0" * 15 + "a")]
    who = identity(before[0], before)
    assert isinstance(who, Identity)
    result = repair(mapping(GOOD), "pve1", after, {"0000:41:00.0": who}, {"0000:41:00.0": 12, "0000:61:00.0": 13})
    assert (result.entries[0].kind, result.entries[0].bdfs) == ("moved-proven", ("0000:61:00.0",))
    devices = {f.bdf: mapping_unit.Device(f.bdf, f.ids, "10de:204e", _dsn(f), f.bdf, "13") for f in after}
    records = {"0000:41:00.0": mapping_unit.Record(who.ids, who.subsystem_ids, who.dsn, who.path)}
    (decision,) = mapping_unit.decide("gpus", [GOOD], "pve1", devices, records)
    assert decision.kind == "moved-proven"


def _dsn(function: PciFunction) -> str | None:
    assert isinstance(function.config, ConfigSpace)
    assert not isinstance(function.config.dsn, PveError)
    return function.config.dsn if isinstance(function.config.dsn, str) else None


@pytest.mark.counted
def test_every_numbered_trap_has_a_test() -> None:
    texts = [path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py")]
    found = {int(number) for text in texts for number in re.findall(r"^def test_trap_(\d\d)_", text, re.MULTILINE)}
    print(f"traps: {len(found)} of 43 numbered traps have a test")
    assert found == set(range(1, 44))
