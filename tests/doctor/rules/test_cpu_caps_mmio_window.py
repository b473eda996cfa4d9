"""cpu-caps-mmio-window."""

from __future__ import annotations

import pytest

from provision.doctor.rules.cpu_caps_mmio_window import RULE
from provision.evidence import Unknown

GONE = Unknown(unknown="denied", supply="be root")
GIB = 2**30


def with_cpu(examples, cpu):
    return {100: examples.vm.replace("cpu: host", f"cpu: {cpu}")}


@pytest.mark.parametrize("cpu", ["x86-64-v2-AES", "kvm64", "x86-64-v2-AES,flags=+aes", "EPYC-Turin,phys-bits=40"])
def test_fires_for_a_cpu_of_40_bits(build, examples, cpu):
    (finding,) = RULE.check(build(vms=with_cpu(examples, cpu)).model())
    assert finding.severity == "error"
    assert finding.subjects == ("vm/100", "0000:41:00.0", "0000:81:00.0")
    assert finding.summary == "VM 100: its firmware has 128 GiB of address space, its GPUs need 387 GiB"
    assert (finding.evidence[0].source, finding.evidence[0].line) == ("/etc/pve/nodes/pve1/qemu-server/100.conf", 3)
    assert "BAR 1 128 GiB" in finding.evidence[1].excerpt
    assert "qm set 100 --cpu host" in finding.remedy[0]


def test_fires_without_the_option(build, examples):
    (finding,) = RULE.check(build(vms={100: examples.vm.replace("cpu: host\n", "")}).model())
    assert finding.evidence[0].excerpt == "cpu is not set"


def test_fires_by_the_largest_gpu_of_a_pool(build, examples):
    vm = "bios: ovmf\ncpu: kvm64\nhostpci0: mapping=gpu-0,pcie=1\n"
    small = examples.gpu("0000:41:00.0", 31, bar1=256 * 2**20)
    functions = (small, *(f for f in examples.functions() if f.bdf != "0000:41:00.0"))
    assert list(RULE.check(build(vms={100: vm}, functions=functions).model())) == []
    (finding,) = RULE.check(build(vms={100: vm}, functions=functions, mappings=examples.pool).model())
    assert finding.subjects == ("vm/100", "0000:81:00.0")


def test_fires_by_different_gpus_of_a_pool(build, examples):
    vm = "bios: ovmf\ncpu: kvm64\nhostpci0: mapping=gpu-0,pcie=1\nhostpci1: mapping=gpu-0,pcie=1\n"
    (finding,) = RULE.check(build(vms={100: vm}, mappings=examples.pool).model())
    assert finding.subjects == ("vm/100", "0000:41:00.0", "0000:81:00.0")


def test_fires_although_a_part_is_unknown(build, examples):
    functions = tuple(
        f.model_copy(update={"bars": GONE}) if f.bdf == "0000:81:00.0" else f for f in examples.functions()
    )
    (finding,) = RULE.check(build(vms=with_cpu(examples, "kvm64"), functions=functions).model())
    assert "need 131.5 GiB" in finding.summary


@pytest.mark.parametrize(
    "cpu",
    ["host", "max", "EPYC-Turin,phys-bits=host", "host\nargs: -fw_cfg name=opt/ovmf/X-PciMmio64Mb,string=1048576"],
)
def test_is_silent_where_the_window_holds_them(build, examples, cpu):
    assert list(RULE.check(build(vms=with_cpu(examples, cpu)).model())) == []


def test_is_silent_for_small_bars_other_firmware_and_no_gpu(build, examples, healthy):
    assert list(RULE.check(healthy)) == []
    kvm64 = with_cpu(examples, "kvm64")
    small = tuple(examples.gpu(f.bdf, 1, bar1=256 * 2**20) if f.is_nvidia_gpu else f for f in examples.functions())
    assert list(RULE.check(build(vms=kvm64, functions=small).model())) == []
    assert list(RULE.check(build(vms={100: kvm64[100].replace("ovmf", "seabios")}).model())) == []
    assert list(RULE.check(build(vms={100: "bios: ovmf\ncpu: kvm64\nhostpci0: 02:00.0\n"}).model())) == []


@pytest.mark.parametrize(
    ("facts", "missing"),
    [
        ({"phys_bits": GONE}, "address space of VM 100: denied"),
        ({"mappings": ""}, None),
    ],
)
def test_cannot_decide(build, facts, missing):
    assert [u.missing for u in RULE.check(build(**facts).model())] == ([missing] if missing else [])


@pytest.mark.parametrize("cpu", ["custom-mine", "host,phys-bits"])
def test_cannot_decide_for_a_model_that_is_described_elsewhere(build, examples, cpu):
    (unknown,) = RULE.check(build(vms=with_cpu(examples, cpu)).model())
    assert unknown.missing.startswith("address space of VM 100")
    assert unknown.supply


def test_cannot_decide_for_a_gpu_that_is_not_there(build, examples):
    functions = tuple(f for f in examples.functions() if f.bdf != "0000:81:00.0")
    (unknown,) = RULE.check(build(functions=functions).model())
    assert "there is no device at 0000:81:00.0" in unknown.missing


def test_cannot_decide_where_no_gpu_is_there(build, examples):
    functions = tuple(f for f in examples.functions() if not f.is_nvidia_gpu)
    (unknown,) = RULE.check(build(functions=functions).model())
    assert "there is no device at" in unknown.missing


def test_cannot_decide_without_vms_configuration_or_mappings(healthy):
    vm = healthy.proxmox.vms[0].model_copy(update={"config_text": GONE})
    for update in ({"vms": GONE}, {"vms": (vm,)}, {"mappings": GONE}):
        proxmox = healthy.proxmox.model_copy(update=update)
        (unknown,) = RULE.check(healthy.model_copy(update={"proxmox": proxmox}))
        assert unknown.supply == "be root"
