"""A selector means exactly the GPUs that are there, or says what is there."""

from __future__ import annotations

import pytest

from provision.errors import InventoryError
from provision.evidence import Unknown
from provision.inventory.models import GpuSelector
from provision.inventory.select import select_gpus


def chosen(model, /, **conditions):
    return [f.bdf[5:7] for f in select_gpus(GpuSelector.model_validate(conditions), model)]


@pytest.mark.parametrize(
    ("conditions", "buses"),
    [
        ({}, ["01", "41", "81", "c1"]),
        ({"bdf": ["c1:00.0", "01:00.0"]}, ["01", "c1"]),
        ({"numa": 1}, ["81", "c1"]),
        ({"slot": [5, 7]}, ["41", "81"]),
        ({"count": 2}, ["01", "41"]),
        ({"numa": 1, "count": 1}, ["81"]),
        ({"model": "10de:2330"}, ["c1"]),
        ({"model": "10DE:2BB5"}, ["01", "41", "81"]),
        ({"model": "rtx pro 6000"}, ["01", "41", "81"]),
        ({"all but": {"numa": 0}}, ["81", "c1"]),
        ({"all but": ["0000:41:00.0"], "count": 3}, ["01", "81", "c1"]),
    ],
)
def test_what_a_selector_means(model, conditions, buses):
    assert chosen(model, **conditions) == buses


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ({"bdf": ["0000:99:00.0"]}, "there is no device at 0000:99:00.0"),
        ({"bdf": ["0000:01:00.1"]}, "0000:01:00.1 is no NVIDIA GPU"),
        (
            {"bdf": ["0000:02:00.0", "0000:77:00.0"]},
            "0000:02:00.0 is no NVIDIA GPU .*; there is no device at 0000:77:00.0",
        ),
        ({"model": "A100"}, "no GPU here is model 'A100'"),
        ({"slot": [5, 9]}, "no GPU here is in slot 9"),
        ({"numa": 3}, "no GPU is left"),
        ({"all but": "all"}, "no GPU is left"),
        ({"all but": ["0000:99:00.0"]}, "all but on pve1: there is no device at"),
        ({"count": 5}, "count: 5 and only 4 match"),
    ],
)
def test_what_is_not_there_is_said_with_what_is(model, conditions, words):
    with pytest.raises(InventoryError, match=words) as caught:
        chosen(model, **conditions)
    assert len(caught.value.problems) == 4
    assert "0000:c1:00.0 10de:2330" in caught.value.problems[3]
    assert "NUMA 1" in caught.value.problems[3]


@pytest.mark.parametrize("fact", ["numa_node", "slot_name"])
def test_an_unknown_fact_decides_nothing(build, fact):
    model = build.host((build.gpu("0000:01:00.0", **{fact: Unknown(unknown="denied", supply="be root")}),))
    key = {"numa_node": "numa", "slot_name": "slot"}[fact]
    with pytest.raises(InventoryError, match=f"{key} of 0000:01:00.0 is unknown") as caught:
        chosen(model, **{key: 0})
    assert caught.value.hint == "be root"


def test_a_host_without_a_gpu(build):
    with pytest.raises(InventoryError, match="this host has no NVIDIA GPU"):
        chosen(build.host(build.others))


def test_one_vm_takes_sixteen_at_most(build):
    model = build.host(tuple(build.gpu(f"0000:{bus:02x}:00.0") for bus in range(1, 18)))
    with pytest.raises(InventoryError, match="17 GPUs and Proxmox gives one VM at most 16"):
        select_gpus(GpuSelector(), model)
    assert len(select_gpus(GpuSelector(count=16), model)) == 16
    assert len(select_gpus(GpuSelector(), model, limit=None)) == 17
