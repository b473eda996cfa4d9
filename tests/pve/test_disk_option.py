"""Disks by their options: sizes, and what Proxmox makes of a wish for a new one."""

from __future__ import annotations

import pytest

from provision.apply.objects import same_option
from provision.pve.disk_option import is_made_as, size_of


@pytest.mark.parametrize(
    ("option", "size"),
    [
        ("local-lvm:vm-100-disk-0,size=200G", 200 << 30),
        ("local:100/vm-100-disk-0.raw,efitype=4m,size=528K", 528 << 10),
        ("size=3584M,cache=none", 3584 << 20),
        ("x,size=1.5T", 3 << 39),
        ("x,size=512", 512),
        ("local-lvm:vm-100-disk-0", None),
        ("x,maxsize=4G", None),
        ("size=None", None),
    ],
)
def test_sizes(option: str, size: int | None) -> None:
    assert size_of(option) == size


@pytest.mark.parametrize(
    ("now", "asked", "same"),
    [
        ("lvm:vm-100-disk-1,efitype=4m,size=4M", "lvm:1,efitype=4m", True),
        ("lvm:vm-100-disk-1,size=4M,pre-enrolled-keys=0,efitype=4m", "lvm:1,efitype=4m,pre-enrolled-keys=0", True),
        ("local:100/vm-100-disk-0.raw,size=528K", "local:1", True),
        ("lvm:vm-100-disk-0,size=3584M", "lvm:0,import-from=local:import/x.qcow2", True),
        ("lvm:vm-100-cloudinit,media=cdrom,size=4M", "lvm:cloudinit", True),
        ("other:vm-100-disk-1,efitype=4m,size=4M", "lvm:1,efitype=4m", False),
        ("lvm:vm-100-disk-1,efitype=2m,size=4M", "lvm:1,efitype=4m", False),
        ("lvm:1,efitype=4m", "lvm:1,efitype=4m", False),
        ("lvm:vm-100-disk-1,size=4M", "lvm:vm-100-disk-2,size=4M", False),
        ("q35", "q35", False),
    ],
)
def test_a_new_disk_is_what_was_asked_for(now: str, asked: str, same: bool) -> None:
    assert is_made_as(now, asked) is same


def test_a_step_that_makes_a_disk_reads_back_as_done() -> None:
    made = "local-lvm:vm-100-disk-1,efitype=4m,pre-enrolled-keys=0,size=4M"
    assert same_option("efidisk0", made, "local-lvm:1,efitype=4m,pre-enrolled-keys=0")
    assert not same_option("efidisk0", None, "local-lvm:1,efitype=4m")
    assert not same_option("efidisk0", made, None)
