"""The words of ``args`` as QEMU takes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.pve.args import Args, ArgsError
from provision.pve.args_words import ArgsReading, DeviceSet, GlobalSet, split_options

FULL = (
    "-cpu host,phys-bits=48 -set device.hostpci0.x-nv-gpudirect-clique=0 -global vfio-pci.x-no-mmap=off "
    "-global driver=q35-pcihost,property=pci-hole64-size,value=2048G -fw_cfg name=opt/ovmf/X-PciMmio64Mb,string=262144 "
    "-device vfio-pci,host=0000:41:00.0,id=own -device vfio-pci,sysfsdev=/sys/x -device 'isa-x,name=a,,b' -nographic"
)


def read(text: str) -> ArgsReading:
    return ArgsReading.of(Args.parse(text))


def test_every_option_that_matters() -> None:
    found = read(FULL)
    assert found.cpu == "host,phys-bits=48"
    assert found.device_sets == (DeviceSet("hostpci0", "x-nv-gpudirect-clique", "0"),)
    assert found.globals == (
        GlobalSet("vfio-pci", "x-no-mmap", "off"),
        GlobalSet("q35-pcihost", "pci-hole64-size", "2048G"),
    )
    assert found.fw_cfg == {"opt/ovmf/X-PciMmio64Mb": "262144"}
    assert [device.host for device in found.vfio_devices] == ["0000:41:00.0", None]
    assert found.vfio_devices[0].options["id"] == "own"
    assert found.stray == ()
    assert found.options[-1].name == "nographic"
    assert found.options[-1].value is None


def test_the_last_cpu_counts_and_a_lost_one_leaves_a_stray_word() -> None:
    assert read("-cpu Haswell --cpu 'Penryn,vendor=GenuineIntel'").cpu == "Penryn,vendor=GenuineIntel"
    assert read("-no-reboot").cpu is None
    lost = read("-smbios type=2 Cascadelake-Server,vendor=GenuineIntel -device usb-kbd")
    assert lost.stray == ("Cascadelake-Server,vendor=GenuineIntel",)
    assert lost.cpu is None


def test_trap_21_set_splits_at_the_first_two_dots() -> None:
    (one,) = read("-set device.hostpci0.0.x-nv-gpudirect-clique=0").device_sets
    assert (one.id, one.property) == ("hostpci0", "0.x-nv-gpudirect-clique")


@pytest.mark.parametrize("text", ["-a 'b", '-cpu "host', "-x a\\"])
def test_unbalanced_quotes_are_noticed(text: str) -> None:
    with pytest.raises(ArgsError):
        Args.parse(text)


def test_forms_that_are_no_setting_are_left_out() -> None:
    assert read("-set drive.x.y=1 -set rubbish -global rubbish -fw_cfg file=x -cpu").device_sets == ()
    assert read("-global rubbish").globals == ()
    assert read("-fw_cfg name=opt/a,file=/x").fw_cfg == {"opt/a": None}
    assert split_options("a,b,c=1,,2", "driver") == {"driver": "a", "b": "on", "c": "1,2"}


@given(st.lists(st.text(st.characters(blacklist_categories=("Cs",)), min_size=1)))
def test_every_word_is_in_one_option(words: list[str]) -> None:
    args = Args.parse("").add(*words)
    found = ArgsReading.of(args)
    count = sum(1 if o.is_stray or o.value is None else 2 for o in found.options)
    assert count == len(words)
