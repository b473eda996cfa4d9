"""Pasted text as a host model, and what ``pvectl topo`` and ``pvectl compare`` print of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provision.capture.store import save
from provision.cli import compare, topo
from provision.cli.output import OutputFormat
from provision.cli.sources import load_source
from provision.errors import CaptureError, Undecided, UsageError
from provision.evidence import Unknown
from provision.host.from_text import model_from_text
from provision.readers.read import Reading, read

DATA = Path(__file__).parents[1] / "data" / "readers"
Make = Callable[..., Any]


def reading(name: str) -> tuple[str, Reading]:
    found = read((DATA / name).read_text(encoding="utf-8"))
    assert isinstance(found, Reading)
    return name, found


def test_everything_that_text_does_not_show_is_unknown() -> None:
    model = model_from_text([reading("lspci-Dnnvvvx.txt")]).model
    assert len(model.pci) == 11
    assert model.group_of("0000:01:00.0") is not None
    for fact in (model.hostname, model.kernel.running_cmdline, model.iommu.units, model.disks, model.proxmox.vms):
        assert isinstance(fact, Unknown)
        assert fact.supply
    assert isinstance(model.console.has_bmc, Unknown)
    assert isinstance(model.console.boot_vga, Unknown)


def test_texts_are_put_together() -> None:
    host = model_from_text(
        [reading("lspci-nnk.txt"), reading("groups-paths.txt"), reading("lspci-t.txt"), reading("cmdline.txt")]
    )
    gpu = host.model.function("0000:01:00.0")
    assert gpu is not None
    assert (gpu.driver, gpu.iommu_group, gpu.parent, gpu.root) == ("nouveau", 6, "0000:00:01.0", "pci0000:00")
    assert host.conflicts == ()
    assert isinstance(host.model.kernel.running_cmdline, str)
    assert "intel_iommu=on" in host.model.kernel.running_cmdline


def test_texts_that_differ() -> None:
    other = read("IOMMU group 3 01:00.0 VGA compatible controller [0300]: X [10de:2bb5] (rev a1)\n")
    assert isinstance(other, Reading)
    host = model_from_text([reading("lspci-Dnnvvvx.txt"), ("other.txt", other)])
    assert host.conflicts == (
        "0000:01:00.0: device 2b85 and 2bb5 (other.txt last)",
        "0000:01:00.0: IOMMU group 6 and 3 (other.txt last)",
    )
    gpu = host.model.function("0000:01:00.0")
    assert gpu is not None
    assert gpu.iommu_group == 6


def test_topo_of_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        topo.command(from_=[DATA / "lspci-nnk.txt"], targets=[str(DATA / "groups-ls.txt"), str(DATA / "lspci-t.txt")])
        == 0
    )
    out = capsys.readouterr().out
    assert f"{DATA / 'lspci-nnk.txt'}: lspci, lspci -k; 11 functions" in " ".join(out.split())
    assert "GPU GeForce RTX 5090 10de:2b85" in out
    assert "driver nouveau, group 6" in out
    assert "ACS ? [" in out
    assert "find /sys/kernel/iommu_groups" not in out
    assert max(map(len, out.splitlines())) <= 100
    assert out.endswith("Next: pvectl capture root@HOST\n")


def test_topo_of_names_alone(capsys: pytest.CaptureFixture[str]) -> None:
    topo.command(from_=[DATA / "lspci.txt"])
    out = capsys.readouterr().out
    assert "GPU NVIDIA Corporation GB202 [GeForce RTX 5090] 10de:????" in out
    assert "IOMMU groups: ? [" in out
    assert "ffff" not in out


def test_topo_of_a_tree_does_not_claim_that_there_is_no_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    topo.command(from_=[DATA / "lspci-t.txt"], show_all=True)
    assert "NVIDIA GPUs ? [" in capsys.readouterr().out


def test_topo_says_what_it_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (DATA / "lspci-nn.txt").read_text(encoding="utf-8").splitlines()
    broken = [f"00:{n}?.0 USB controller" for n in range(8)]
    path = tmp_path / "cut.txt"
    path.write_text("\n".join([*lines, *(line for pair in zip(broken, ["text"] * 8, strict=True) for line in pair)]))
    topo.command(from_=[path])
    out = capsys.readouterr().out
    assert "skipped line 12: a device line that could not be read" in " ".join(out.split())
    assert "skipped 3 more lines" in " ".join(out.split())
    assert "8 lines of other text" in " ".join(out.split())


def test_topo_uses_the_largest_of_several_listings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    groups = (DATA / "groups-inline.txt").read_text(encoding="utf-8")
    path = tmp_path / "both.txt"
    path.write_text(f"{groups}\nnow:\n\n{groups.replace('group 8 ', 'group 4 ')}")
    topo.command(from_=[path])
    assert "2 listings that contradict each other" in " ".join(capsys.readouterr().out.split())


def test_topo_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    topo.command(from_=[DATA / "lspci-nn.txt"], output=OutputFormat.json)
    done = capsys.readouterr()
    document = json.loads(done.out)
    assert document["schema"] == "pvectl.model/1"
    assert document["data"]["pci"][0]["iommu_group"]["unknown"] == "the text does not show IOMMU groups"
    assert "lspci; 11 functions" in " ".join(done.err.split())


def test_unknown_text(tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_text("the card hangs\n")
    with pytest.raises(Undecided) as raised:
        topo.command(from_=[path])
    assert raised.value.exit_code == 8
    assert "'the card hangs'" in raised.value.message
    assert "looked for lspci" in raised.value.message
    with pytest.raises(Undecided):
        load_source([DATA / "cmdline.txt"])


def test_one_file_of_two_is_nothing(tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_text("the card hangs\n")
    source = load_source([DATA / "lspci-nn.txt", path])
    assert any("not used" in note for note in source.notes)


def test_a_capture_stands_alone(server: Make, tmp_path: Path) -> None:
    path = tmp_path / "pve1.tar.gz"
    save(server(1).capture(), path)
    renamed = tmp_path / "capture"
    renamed.write_bytes(path.read_bytes())
    assert load_source([renamed]).is_capture
    with pytest.raises(UsageError):
        load_source([path, DATA / "lspci.txt"])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CaptureError):
        topo.command(from_=[tmp_path / "none.txt"])


def test_several_hosts_at_once() -> None:
    with pytest.raises(UsageError):
        topo.command(targets=["one", "two"])


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """The host after a card came in front of all others: every bus number from 1 up is one higher."""
    lines = (DATA / "lspci-nn.txt").read_text(encoding="utf-8").splitlines()
    after = [line if line.startswith("00") else f"{int(line[:2], 16) + 1:02x}{line[2:]}" for line in lines]
    path = tmp_path / "after.txt"
    path.write_text("\n".join([*after, "01:00.0 3D controller [0302]: NVIDIA Corporation X [10de:2bb5] (rev a1)"]))
    return path


def test_compare(moved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.command(DATA / "lspci-nn.txt", moved) == 0
    out = capsys.readouterr().out
    assert out.startswith("functions: 7 at the same address, 4 moved, 1 new, 0 gone\n")
    assert "moved    0000:01:00.0 -> 0000:02:00.0  NVIDIA Corporation GB202 [GeForce RTX 5090]" in out
    assert "new      0000:01:00.0" in out
    assert "Another device is now at: 0000:01:00.0 0000:02:00.0 0000:03:00.0" in out


def test_compare_as_json(moved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compare.command(moved, DATA / "lspci-nn.txt", OutputFormat.json)
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "pvectl.moves/1"
    assert document["data"]["removed"] == ["0000:01:00.0"]


def test_compare_says_what_is_unclear_and_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = "{}:00.0 3D controller [0302]: NVIDIA Corporation X [10de:2bb5] (rev a1)\n"
    nic = "05:00.0 Ethernet controller [0200]: Intel Corporation Y [8086:1533] (rev 03)\n"
    before, after = tmp_path / "before.txt", tmp_path / "after.txt"
    before.write_text(card.format("01") + card.format("02") + nic)
    after.write_text(card.format("02") + card.format("03"))
    compare.command(before, after)
    out = capsys.readouterr().out
    assert "unclear  0000:01:00.0 0000:02:00.0 -> 0000:02:00.0 0000:03:00.0" in out
    assert "gone     0000:05:00.0  Intel Corporation Y" in out


def test_compare_captures(server: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pve1.tar.gz"
    save(server(1).capture(), path)
    compare.command(path, path)
    assert " 0 moved, 0 new, 0 gone" in capsys.readouterr().out


def test_compare_without_a_common_name(moved: Path) -> None:
    with pytest.raises(Undecided):
        compare.command(DATA / "groups-paths.txt", moved)
