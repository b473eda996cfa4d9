"""Reading the kernel log, the module's parameters and finding libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.guest.onboard import kernel_log, library_search, module_level
from provision.guest.onboard.errors import Missing
from provision.guest.onboard.files import Files

RECORDS = """6,1,1000,-;Linux version 6.8.0
4,900,4158648,-;NVRM: Xid (PCI:0000:00:06): 79, GPU has fallen off the bus.
 SUBSYSTEM=pci
 DEVICE=+pci:0000:00:06.0
3,901,4200000,c;nvidia-uvm: uvm init failed
6,902,4300000,-;audit: nothing of ours
"""


def test_only_lines_about_the_gpus_are_kept(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_text(RECORDS)
    found = kernel_log.kernel_log(Files(str(tmp_path)))
    assert found == {
        "source": "/dev/kmsg",
        "lines": [
            "[    4.158648] NVRM: Xid (PCI:0000:00:06): 79, GPU has fallen off the bus.",
            "[    4.200000] nvidia-uvm: uvm init failed",
        ],
        "left_out": 0,
    }


def test_the_first_and_the_last_lines_of_a_storm_are_kept(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_text("".join(f"4,{n},{n * 1000000},-;NVRM: line {n}\n" for n in range(1000)))
    found = kernel_log.kernel_log(Files(str(tmp_path)))
    assert found["left_out"] == 1000 - kernel_log.KEEP
    assert found["lines"][0].endswith("line 0")
    assert found["lines"][-1].endswith("line 999")


def test_a_log_that_cannot_be_read_is_an_error_and_not_empty(tmp_path: Path) -> None:
    assert "No such file" in kernel_log.kernel_log(Files(str(tmp_path)))["error"]


def test_the_journal_is_asked_where_kmsg_is_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_files: Files) -> list[str]:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(kernel_log, "_kmsg", denied)
    monkeypatch.setattr(kernel_log, "JOURNAL", ("printf", "[ 1.0] host kernel: NVRM: loading\\n"))
    assert kernel_log.kernel_log(Files("/"))["lines"] == ["[ 1.0] host kernel: NVRM: loading"]
    monkeypatch.setattr(kernel_log, "JOURNAL", ("false",))
    assert "read it as root" in kernel_log.kernel_log(Files("/"))["error"]


def test_module_parameters_and_other_drivers(tmp_path: Path) -> None:
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/params").write_text('EnableGpuFirmware: 18\nRegistryDwords: "ForceP2P=0x11;A=1"\n')
    (tmp_path / "proc/modules").write_text("nouveau 1 0 - Live 0x0\n")
    found = module_level.module(Files(str(tmp_path)))
    assert found["parameters"] == {"EnableGpuFirmware": "18", "RegistryDwords": '"ForceP2P=0x11;A=1"'}
    assert found["others"] == ["nouveau"]
    assert found["nvidia_loaded"] is False


def library(folder: Path, version: str) -> None:
    folder.mkdir(parents=True)
    (folder / f"libcuda.so.{version}").write_bytes(b"")
    (folder / "libcuda.so.1").symlink_to(f"libcuda.so.{version}")


def test_the_copy_of_the_module_s_version_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader that finds a compatibility copy first would pair it with an older module."""
    library(tmp_path / "compat", "610.10")
    library(tmp_path / "lib", "580.159.04")
    monkeypatch.setattr(library_search, "FOLDERS", (str(tmp_path / "compat"), str(tmp_path / "lib")))
    right, stale = str(tmp_path / "lib/libcuda.so.1"), str(tmp_path / "compat/libcuda.so.1")
    assert library_search.candidates("libcuda.so.1", "580.159.04") == [right, "libcuda.so.1", stale]
    assert library_search.candidates("libcuda.so.1", None)[0] == "libcuda.so.1"


def test_a_stub_is_never_loaded(tmp_path: Path) -> None:
    library(tmp_path / "stubs", "1.2")
    with pytest.raises(Missing, match="a stub for linking"):
        library_search.load_library([str(tmp_path / "stubs/libcuda.so.1")])


def test_what_was_really_loaded_is_told() -> None:
    found = library_search.loaded("libc.so.6")
    assert found["path"] is not None
    assert found["stub"] is False
    assert library_search.loaded("libnothing.so.1")["path"] is None
