"""vm-io-ports-short."""

from __future__ import annotations

import pytest

from provision.doctor.rules.vm_io_ports_short import RULE
from provision.evidence import Unknown
from provision.pci.model import Bar

GONE = Unknown(unknown="denied", supply="be root")
IO = Bar(index=5, start=0x1000, size=128, is_io=True)


def gpus(examples, count, *, bars=None):
    found = []
    for index in range(count):
        gpu = examples.gpu(f"0000:{0x41 + index:02x}:00.0", 31 + index)
        found.append(gpu.model_copy(update={"bars": (*gpu.bars, IO) if bars is None else bars}))
    return tuple(found)


def vm(count):
    slots = "".join(f"hostpci{index}: 0000:{0x41 + index:02x}:00.0,pcie=1\n" for index in range(count))
    return {100: f"bios: ovmf\ncpu: host\n{slots}machine: q35\n"}


@pytest.mark.parametrize("count", [8, 16])
def test_fires_from_the_eighth_gpu_on(build, examples, count):
    (finding,) = RULE.check(build(functions=gpus(examples, count), vms=vm(count)).model())
    assert finding.severity == "error"
    assert finding.summary == f"VM 100: {count} of its GPUs have an I/O BAR, OVMF has I/O ports for 7"
    assert len(finding.subjects) == count + 1
    assert finding.evidence[0].excerpt == f"BAR 5: 128 I/O ports (and {count - 1} more GPUs)"


def test_is_silent_for_seven_for_cards_without_ports_and_for_other_firmware(build, examples, healthy):
    assert list(RULE.check(healthy)) == []
    assert list(RULE.check(build(functions=gpus(examples, 8), vms=vm(7)).model())) == []
    assert (
        list(
            RULE.check(build(functions=gpus(examples, 8, bars=examples.gpu("0000:41:00.0", 1).bars), vms=vm(8)).model())
        )
        == []
    )
    seabios = {100: vm(8)[100].replace("ovmf", "seabios")}
    assert list(RULE.check(build(functions=gpus(examples, 8), vms=seabios).model())) == []


def test_cannot_decide_where_a_gpu_is_not_known(build, examples, healthy):
    (unknown,) = RULE.check(build(functions=gpus(examples, 7), vms=vm(8)).model())
    assert "there is no device at 0000:48:00.0" in unknown.missing
    (unknown,) = RULE.check(build(functions=gpus(examples, 8, bars=GONE), vms=vm(8)).model())
    assert "denied" in unknown.missing
    proxmox = healthy.proxmox.model_copy(update={"vms": GONE})
    (unknown,) = RULE.check(healthy.model_copy(update={"proxmox": proxmox}))
    assert unknown.supply == "be root"
