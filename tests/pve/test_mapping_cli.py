"""``pvectl mapping`` on the lab: read, repair, adopt, split, and the way back; and the unit at boot."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provision.pve import mapping_unit

pytestmark = pytest.mark.story

PCI_CFG = "etc/pve/mapping/pci.cfg"


def edit(host: Any, change: Callable[[str], str]) -> None:
    path: Path = host.root / PCI_CFG
    path.write_text(change(path.read_text()))


def test_check_repair_and_back(on_lab: Callable[..., Any]) -> None:
    host = on_lab()
    before = (host.root / PCI_CFG).read_text()
    assert host.call("mapping", "list").must(0, "rtx6000", "0000:e1:00.0", "100").out.count("\n") == 9
    host.call("mapping", "check").must(3, "group-only", "Proxmox: Invalid configuration: 'iommugroup' does not match")
    host.call("mapping", "repair", "--dry-run").must(0, "Repair mapping rtx6000")
    assert (host.root / PCI_CFG).read_text() == before
    host.call("mapping", "repair").must(4, "--yes")
    host.call("mapping", "repair", "--yes").must(0, "before the change", "after the change", "rtx6000 on pve1: valid")
    host.call("mapping", "check").must(0, "Proxmox: valid")
    host.call("mapping", "repair", "--yes").must(0, "nothing to do")
    assert len(host.runs()) == 1
    host.call("capture", "-o", "one.tar.gz").must(0)
    host.call("mapping", "check", "--from", "one.tar.gz").must(0, "Proxmox: not asked")
    host.call("mapping", "check", "--also", "one.tar.gz").must(64, "node pve1 was read already")
    document = json.loads(host.call("mapping", "check", "--from", "one.tar.gz", "--output", "json").must(0).out)
    assert document["schema"] == "pvectl.mapping/1"
    assert {row["kind"] for row in document["data"]["checks"][0]["entries"]} == {"valid"}
    host.call("rollback", "--yes").must(0)
    assert (host.root / PCI_CFG).read_text() == before


@pytest.mark.laws
def test_the_user_decides_what_is_ambiguous_or_gone(on_lab: Callable[..., Any]) -> None:
    host = on_lab()
    entry = "\tmap id=10de:2bb5,iommugroup=9,node=pve1,path=0000:99:00.0,subsystem-id=10de:204e\n"
    gone = "\tmap id=10de:1111,iommugroup=9,node=pve1,path=0000:98:00.0,subsystem-id=10de:204e\n"
    other = entry.replace("pve1", "pve2")
    edit(host, lambda text: text + f"one\n{entry}{other}\n" + f"old\n{gone}\n")
    host.call("mapping", "repair", "--mapping", "one", "--yes").must(8, "candidates: 0000:01:00.0", "--assign one:1=")
    host.call("mapping", "repair", "--assign", "one:1=0000:00:00.0").must(64, "holds")
    host.call("mapping", "repair", "--assign", "one:2=0000:41:00.0").must(64, "one")
    host.call("mapping", "repair", "--assign", "two:1=0000:41:00.0").must(64, "no mapping two")
    host.call("mapping", "repair", "--assign", "one=41").must(64, "MAPPING:N=BDF")
    done = host.call("mapping", "repair", "--mapping", "one", "--assign", "one:1=0000:41:00.0", "--yes")
    done.must(0, "one on pve1: valid")
    assert other in (host.root / PCI_CFG).read_text()
    host.call("mapping", "repair", "--mapping", "old", "--drop-gone", "--yes").must(4, "Delete it?")
    host.call("mapping", "repair", "--mapping", "old", "--drop-gone", "--delete-empty", "--yes").must(
        0, "Delete mapping"
    )
    assert "old\n" not in (host.root / PCI_CFG).read_text()
    host.call("rollback", "--yes").must(0)
    assert gone in (host.root / PCI_CFG).read_text()


def test_text_that_proxmox_would_drop_stops_it(on_lab: Callable[..., Any]) -> None:
    host = on_lab("epyc-8x-rtxpro6000", "mapping-damaged")
    host.call("mapping", "check").must(3, "damaged entry")
    host.call("mapping", "repair", "--yes").must(4, "--accept-lost-text")
    host.call("mapping", "repair", "--yes", "--accept-lost-text").must(0, "rtx6000 on pve1: valid")


@pytest.mark.laws
def test_adopt_then_a_swap_is_followed(on_lab: Callable[..., Any]) -> None:
    host = on_lab()
    host.call("mapping", "adopt", "--yes").must(0, "Record who 8 devices are", "rtx6000 is not valid now")
    host.call("mapping", "adopt", "--yes").must(0, "nothing to do")
    host.call("mapping", "repair", "--yes").must(0)
    host.break_("gpu-swapped")
    host.call("mapping", "check").must(3, "moved-proven", "serial number")
    host.call("mapping", "adopt", "--yes").must(4, "--replace")
    host.call("mapping", "repair", "--yes").must(0, "rtx6000 on pve1: valid")


def test_adopt_describes_what_is_valid(on_lab: Callable[..., Any]) -> None:
    host = on_lab()
    host.call("mapping", "repair", "--yes").must(0)
    edit(host, lambda text: "\n".join(line.partition(",description=")[0] for line in text.split("\n")))
    host.call("mapping", "adopt", "--yes").must(0, "Describe the devices of mapping rtx6000")
    assert (host.root / PCI_CFG).read_text().count("description=pvectl dsn=") == 8
    host.call("mapping", "check").must(0, "Proxmox: valid")


def test_split_makes_one_mapping_for_each_gpu(on_lab: Callable[..., Any]) -> None:
    host = on_lab()
    host.call("mapping", "split", "rtx6000", "--prefix", "gpu", "--yes").must(0, "Create mapping gpu-7", "8 steps")
    host.call("mapping", "split", "rtx6000", "--prefix", "gpu", "--yes").must(0, "nothing to do")
    host.call("mapping", "check", "--mapping", "gpu-7").must(0, "Proxmox: valid")
    host.call("mapping", "split", "nothing").must(64, "rtx6000")


@pytest.mark.parametrize("machine", ["epyc-8x-rtxpro6000"])
def test_the_unit_repairs_a_renumbered_host_at_boot(on_lab: Callable[..., Any], machine: str) -> None:
    host = on_lab(machine)
    host.call("mapping", "repair", "--yes").must(0)
    host.break_("renumber")
    host.call("mapping", "check").must(3, "moved-proven")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert mapping_unit.main([], str(host.root)) == 0
    assert out.getvalue().count("moved-proven") == 7, "the first GPU stays at its address: its group alone is another"
    assert out.getvalue().count("group-only") == 1
    host.call("mapping", "check").must(0, "Proxmox: valid")
    host.call("mapping", "repair", "--yes").must(0, "nothing to do")


@pytest.mark.laws
def test_the_plan_installs_the_unit_and_takes_it_away(on_lab: Callable[..., Any]) -> None:
    host = on_lab()
    with_unit = host.inventory(lambda d: d["policies"].update(mapping_unit="repair", raw_devices="hold"), "unit.yaml")
    host.call("plan", "-i", with_unit).must(0, "pvectl-mapping.service", "Let pve-ha-lrm.service wait for it")
    host.call("apply", "-i", with_unit, "--yes", "--reboot").must(0)
    text = (host.root / "etc/systemd/system/pvectl-mapping.service").read_text()
    assert "--raw hold" in text
    assert (host.root / "var/lib/pvectl/mapping_unit.py").is_file()
    host.call("plan", "-i", with_unit, "--detailed-exitcode").must(0, "runs at every boot")
    host.call("plan", "--detailed-exitcode").must(2, "Remove /var/lib/pvectl/mapping_unit.py")


def test_what_is_certain_is_repaired_beside_a_lost_card(on_lab: Callable[..., Any]) -> None:
    host = on_lab("epyc-8x-rtxpro6000", "gpu-missing")
    host.call("mapping", "repair", "--yes").must(8, "only you can decide", "0000:41:00.0: gone", "--drop-gone")
    host.call("mapping", "repair", "--drop-gone", "--yes").must(0, "rtx6000 on pve1: valid")
