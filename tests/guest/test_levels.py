"""The first level at which GPUs are missing."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from provision.evidence import Unknown
from provision.guest.facts import GuestFacts, parse_probe
from provision.guest.levels import first_drop
from provision.guest.onboard import main
from provision.guest.onboard.errors import CallFailed, Missing

import h200_guest as guest  # isort: skip


def facts(root: Path, libraries: Any = None) -> GuestFacts:
    out = io.StringIO()
    main.main((), out, str(root), libraries or guest.Recorded())
    return parse_probe(out.getvalue(), 100)


def test_nothing_is_missing(tmp_path: Path) -> None:
    assert first_drop(facts(guest.build_root(tmp_path)), 2) is None


def test_a_gpu_that_the_guest_never_got(tmp_path: Path) -> None:
    drop = first_drop(facts(guest.build_root(tmp_path, gpus=1)), 2)
    assert (drop.level, drop.before, drop.count) == ("PCI", 2, 1)  # type: ignore[union-attr]


def test_registers_without_room(tmp_path: Path) -> None:
    root = guest.build_root(tmp_path)
    zero = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
    (root / "sys/bus/pci/devices/0000:00:07.0/resource").write_text(zero * 6)
    drop = first_drop(facts(root))
    assert (drop.level, drop.missing) == ("BAR", ("0000:00:07.0",))  # type: ignore[union-attr]


def test_another_driver_holds_the_gpu(tmp_path: Path) -> None:
    root = guest.build_root(tmp_path)
    driver = root / "sys/bus/pci/drivers/nouveau"
    driver.mkdir(parents=True)
    (root / "sys/bus/pci/devices/0000:00:06.0/driver").symlink_to(driver)
    drop = first_drop(facts(root))
    assert (drop.level, drop.missing) == ("module", ("0000:00:06.0",))  # type: ignore[union-attr]


def test_the_module_is_not_loaded(tmp_path: Path) -> None:
    root = guest.build_root(tmp_path)
    (root / "proc/modules").write_text("")
    (root / "proc/driver/nvidia/version").unlink()
    assert first_drop(facts(root)).level == "module"  # type: ignore[union-attr]


def test_the_module_did_not_take_a_gpu(tmp_path: Path) -> None:
    root = guest.build_root(tmp_path)
    (root / "proc/driver/nvidia/gpus/0000:00:07.0/information").unlink()
    assert first_drop(facts(root)).level == "driver"  # type: ignore[union-attr]


def test_nvml_has_lost_a_gpu(tmp_path: Path) -> None:
    class Lost(guest.RecordedNvml):
        def gpu(self, index: int) -> dict[str, Any]:
            if index == 1:
                raise CallFailed("nvmlDeviceGetHandleByIndex_v2", 15)
            return super().gpu(index)

    class Libraries(guest.Recorded):
        def nvml(self) -> Any:
            return Lost()

    root = guest.build_root(tmp_path)
    found = facts(root, Libraries())
    drop = first_drop(found)
    assert (drop.level, drop.missing) == ("NVML", ("0000:00:07.0",))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("setup", "count"), [({"cuda_error": 3}, 0), ({"lost": frozenset([1])}, 1)], ids=["HMM", "one GPU"]
)
def test_cuda_fails_where_nvml_works(tmp_path: Path, setup: dict[str, Any], count: int) -> None:
    found = facts(guest.build_root(tmp_path), guest.Recorded(cuda=guest.setup(**setup)))
    drop = first_drop(found)
    assert (drop.level, drop.count) == ("CUDA", count)  # type: ignore[union-attr]


def test_a_cuda_level_that_hangs_names_the_place(tmp_path: Path) -> None:
    from provision.lab.gpu_simulator import Hang, SimulatedCuda

    class Stuck(SimulatedCuda):
        def open(self, device: int) -> None:
            if device == 1:
                raise Hang

    class Libraries(guest.Recorded):
        def cuda(self) -> Any:
            return Stuck(guest.setup())

    found = facts(guest.build_root(tmp_path), Libraries())
    assert isinstance(found.cuda, Unknown)
    assert found.cuda.unknown.endswith("at GPU 1")
    assert first_drop(found).level == "CUDA"  # type: ignore[union-attr]


def test_a_level_that_could_not_be_read_is_unknown_and_not_a_drop(tmp_path: Path) -> None:
    class Bare(guest.Recorded):
        def nvml(self) -> Any:
            raise Missing("libnvidia-ml.so.1 is not there")

    drop = first_drop(facts(guest.build_root(tmp_path), Bare()))
    assert isinstance(drop, Unknown)
    assert "level NVML" in drop.unknown
