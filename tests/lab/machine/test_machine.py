"""Machine files: what is read, and what is refused."""

from __future__ import annotations

import pytest
import yaml

from provision.errors import UsageError
from provision.lab.machine import MACHINES, load_machine, machine_names
from provision.lab.machine_check import problems
from provision.lab.parts import Acs, Part, parts, read_plain
from provision.lab.values import size_in_bytes
from provision.lab.variants import rebuilt, with_gpus

EPYC = "epyc-8x-rtxpro6000"


@pytest.fixture(scope="module")
def epyc():
    return load_machine(EPYC)


def test_shipped_machines():
    assert machine_names() == ("desktop-single-gpu", EPYC, "switch-4x4", "workstation-shared-nic")
    for name in machine_names():
        assert load_machine(name).name == name


def test_epyc(epyc):
    assert epyc.cpu.count == 128
    assert [gpu.dsn[-1] for gpu in epyc.gpus] == list("12345678")
    assert [bridge.numa for bridge in epyc.bridges] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [function.id for function in epyc.functions if function.boot_vga] == ["bmc"]
    assert epyc.guests[100].driver.version == "595.58.03"


def test_machine_of_the_users_own(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text((MACHINES / f"{EPYC}.yaml").read_text())
    assert load_machine(path).name == "mine"


def test_unknown_name_lists_the_shipped_ones():
    with pytest.raises(UsageError) as caught:
        load_machine("no-such")
    assert EPYC in caught.value.hint


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("node: x\n", "bridges"),
        ("- a\n", "Unable to read lab machine"),
        ("a: [\n", "Unable to read lab machine"),
        ("node: PVE_1\n", "node"),
    ],
)
def test_file_that_is_no_machine(tmp_path, text, says):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=says):
        load_machine(path)


def test_impossible_machine_is_refused_with_every_problem(tmp_path):
    text = (
        (MACHINES / f"{EPYC}.yaml").read_text().replace("memory: 1152G", "memory: 1G").replace("numa: 1\n", "numa: 7\n")
    )
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        load_machine(path)
    assert "memory-does-not-add-up" in caught.value.message
    assert caught.value.message.count("numa-node-not-there") == 4


@pytest.mark.parametrize("value", [f"{bus:02x}" for bus in range(256)])
def test_bus_numbers_stay_text(value):
    assert read_plain(f"a: 0000:{value}:00.0\nb: {value}\n") == {"a": f"0000:{value}:00.0", "b": value}


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("4K", 4096), ("64M", 64 << 20), ("128GiB", 128 << 30), ("1T", 1 << 40)]
)
def test_sizes(text, size):
    assert size_in_bytes(text) == size


@pytest.mark.parametrize("text", ["", "G", "1.5G", "64 MB", "-1"])
def test_no_sizes(text):
    with pytest.raises(ValueError, match="is not a size"):
        size_in_bytes(text)


def test_register_with_an_unknown_flag():
    with pytest.raises(ValueError, match="wide is no flag"):
        Part(name="x", ids="1:2", class_code="0", bars=["0 64M wide"])


def test_every_part_is_used():
    used = {function.kind for name in machine_names() for function in load_machine(name).functions}
    assert used | {"nvme-980pro"} == set(parts())


def test_yaml_of_parts_has_no_key_twice():
    from provision.lab import parts as module

    text = (MACHINES.parent / "parts.yaml").read_text()
    names = [str(key.value) for key, _ in yaml.compose(text, Loader=yaml.BaseLoader).value]
    assert len(names) == len(set(names)) == len(module.parts())


def change(machine, target, **fields):
    return rebuilt(machine, lambda f: f.model_copy(update=fields) if target in (f.id, f.slot) else f)


def first_bridge(machine, **fields):
    first, *others = machine.bridges
    return machine.model_copy(update={"bridges": (first.model_copy(update=fields), *others)})


def function(machine, name):
    return machine.find(name)


def put_below(machine, slot, card):
    return change(machine, slot, below=(card,))


def first(items, **fields):
    head, *rest = items
    return (head.model_copy(update=fields), *rest)


IMPOSSIBLE = {
    "unknown-part": lambda m: change(m, "gpu0", kind="gpu-of-tomorrow"),
    "address-out-of-range": lambda m: change(m, "gpu0", at="2f.0"),
    "duplicate-function": lambda m: change(m, "nic1", at="00.0"),
    "function-zero-missing": lambda m: change(m, "gpu0", at="00.1"),
    "below-no-bridge": lambda m: change(m, "gpu0", below=(m.find("nvme0"),)),
    "root-port-below-port": lambda m: put_below(m, "1", next(f for f in m.functions if f.slot == "2")),
    "upstream-port-misplaced": lambda m: first_bridge(
        m,
        functions=(*m.bridges[0].functions, m.find("gpu0").model_copy(update={"at": "1e.0", "kind": "b550-upstream"})),
    ),
    "downstream-port-misplaced": lambda m: change(m, "gpu0", kind="b550-downstream", dsn=None),
    "no-downstream-port": lambda m: put_below(
        m, "1", m.find("gpu0").model_copy(update={"kind": "b550-upstream", "dsn": None, "below": (m.find("nvme1"),)})
    ),
    "endpoint-without-port": lambda m: first_bridge(
        m, functions=(*m.bridges[0].functions, m.find("nvme0").model_copy(update={"at": "1e.0", "id": None}))
    ),
    "device-not-zero": lambda m: change(m, "gpu0", at="01.0"),
    "serial-number-malformed": lambda m: change(m, "gpu0", dsn="12"),
    "serial-number-without-capability": lambda m: change(m, "bmc", dsn="0" * 16),
    "acs-without-capability": lambda m: change(m, "gpu0", acs=m.find("nic0").part.acs),
    "acs-not-implemented": lambda m: change(m, "1", acs=Acs(capability=1, firmware=2)),
    "slot-without-port": lambda m: change(m, "gpu0", slot="77"),
    "link-too-wide": lambda m: change(m, "gpu0", link_width=32),
    "duplicate-id": lambda m: change(m, "gpu1", id="gpu0"),
    "duplicate-serial-number": lambda m: change(m, "gpu1", dsn=m.find("gpu0").dsn),
    "duplicate-acpi-path": lambda m: first_bridge(m, acpi=m.bridges[1].acpi),
    "duplicate-slot": lambda m: change(m, "2", slot="1"),
    "duplicate-mac": lambda m: m.model_copy(update={"interfaces": first(m.interfaces, mac=m.interfaces[1].mac)}),
    "duplicate-name": lambda m: m.model_copy(update={"disks": first(m.disks, name="nvme1n1")}),
    "boot-vga-no-display": lambda m: change(m, "gpu0", boot_vga=True),
    "two-boot-vga": lambda m: change(m, "gpu0", boot_vga=True),
    "function-not-there": lambda m: m.model_copy(update={"disks": first(m.disks, function="nvme9")}),
    "wrong-kind-of-function": lambda m: m.model_copy(update={"disks": first(m.disks, function="gpu0")}),
    "no-system-disk": lambda m: m.model_copy(update={"disks": first(m.disks, system=False)}),
    "no-management-network": lambda m: m.model_copy(update={"interfaces": first(m.interfaces, bridge=None)}),
    "numa-node-not-there": lambda m: first_bridge(m, numa=2),
    "iommu-without-table": lambda m: m.model_copy(
        update={"firmware": m.firmware.model_copy(update={"iommu_table": None})}
    ),
    "memory-does-not-add-up": lambda m: m.model_copy(update={"memory": 1 << 30}),
    "loader-needs-efi": lambda m: m.model_copy(
        update={
            "firmware": m.firmware.model_copy(update={"mode": "bios"}),
            "boot": m.boot.model_copy(update={"loader": "systemd-boot"}),
        }
    ),
    "pool-not-there": lambda m: m.model_copy(update={"pools": {}}),
    "no-gpu": lambda m: m.model_copy(update={"vms": {100: m.vms[100].model_copy(update={"devices": ("nic0",)})}}),
    "vm-not-there": lambda m: m.model_copy(update={"vms": {}}),
    "window-full": lambda m: m.model_copy(update={"cpu": m.cpu.model_copy(update={"phys_bits": 40})}),
    "buses-overlap": lambda m: first_bridge(m, bus=0x1F),
}


@pytest.mark.parametrize("code", IMPOSSIBLE)
def test_impossible(epyc, code):
    machine = IMPOSSIBLE[code](epyc)
    found = problems(type(machine).model_validate(machine.model_dump()))
    assert code in {problem.code for problem in found}
    assert all(problem.where and problem.text for problem in found)


def test_every_check_has_an_impossible_machine():
    import inspect
    import re

    from provision.lab import machine_check

    codes = set(re.findall(r'Problem\(\s*"([a-z-]+)"', inspect.getsource(machine_check)))
    assert codes - {"capabilities-overlap"} == set(IMPOSSIBLE)


def test_overlapping_capabilities(epyc, monkeypatch):
    part = parts()["gpu-rtxpro6000-server"]
    tight = part.model_copy(update={"caps": {**part.caps, "express": 0x42}})
    monkeypatch.setitem(parts(), part.name, tight)
    found = problems(epyc)
    assert {problem.code for problem in found} == {"capabilities-overlap"}
    assert "express" in found[0].text or "pm" in found[0].text


def test_a_sound_machine_has_no_problem(epyc):
    assert problems(epyc) == ()


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 16])
def test_with_gpus(epyc, count):
    machine = with_gpus(epyc, count)
    assert len(machine.gpus) == count
    assert problems(machine) == ()
    assert len({gpu.dsn for gpu in machine.gpus}) == count


def test_with_gpus_takes_the_whole_card():
    machine = with_gpus(load_machine("workstation-shared-nic"), 0)
    assert not [f for f in machine.functions if f.part.ids[0] == 0x10DE]


def test_no_gpu_to_copy(epyc):
    with pytest.raises(ValueError, match="no GPU to copy"):
        with_gpus(with_gpus(epyc, 0), 1)
