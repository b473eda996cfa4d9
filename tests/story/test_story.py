"""From a plan to the proof and all the way back, over SSH and on the host itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

pytestmark = pytest.mark.story

EPYC = "epyc-8x-rtxpro6000"
KILLED = -9
GRUB = "etc/default/grub.d/60-pvectl.cfg"
UDEV = "etc/udev/rules.d/60-pvectl-vfio.rules"
MODPROBE = "etc/modprobe.d/pvectl.conf"


@pytest.mark.parametrize(
    "on_host", [False, pytest.param(True, marks=pytest.mark.laws)], ids=["over SSH", "on the host"]
)
def test_plan_apply_verify_and_back(on_lab: Callable[..., Any], set_up: Callable[[Any], Any], *, on_host: bool) -> None:
    host = on_lab(on_host=on_host)
    before = set_up(host)
    said = [host.pvectl("plan", "-o", "plan.json", "--detailed-exitcode").must(2)]
    assert set_up(host) == before
    said += _across_the_reboot(host, "apply", "--yes", "--reboot")
    said.append(host.pvectl("plan", "--detailed-exitcode").must(0))
    said.append(host.pvectl("verify", "--junit", "report.xml").must(0, "0 failed, 0 undecided"))
    _check_junit(host.home / "report.xml")
    said += _a_second_apply_changes_nothing(host)
    said.append(host.pvectl("capture", "-o", "capture.tar.gz").must(0))
    _token_is_nowhere(host, [answer.out + answer.err for answer in said])
    _across_the_reboot(host, "rollback", "--yes", "--stop-guests", "--reboot")
    assert set_up(host) == before
    assert host.lab.host.node.running() == []
    host.call("plan", "--detailed-exitcode").must(2)


def _across_the_reboot(host: Any, *argv: str) -> list[Any]:
    """On the host itself the reboot ends pvectl too; a unit of the host goes on with the run after it."""
    first = host.pvectl(*argv)
    if not host.on_host:
        return [first.must(0, " done: ")]
    first.must(KILLED, "--resume")
    host.lab.wait_until_up()
    unit = host.lab.wait_for_services()[-1]
    assert unit.rc == 0, unit.err
    assert " done: " in unit.out
    assert not (host.root / "etc/systemd/system/pvectl-resume.service").exists()
    return [first, host.pvectl("apply", "--resume").must(0, "nothing to do")]


def _check_junit(path: Path) -> None:
    suites = ET.parse(path).getroot()
    cases = list(suites.iter("testcase"))
    assert len(cases) > 20
    assert not [case for case in cases if len(case)], "nothing failed and nothing was skipped"


def _a_second_apply_changes_nothing(host: Any) -> list[Any]:
    before, runs = host.files(), host.runs()
    answer = host.pvectl("apply", "--yes", "--reboot").must(0, "nothing to do")
    assert host.runs() == runs
    assert host.files() == before
    return [answer]


def _token_is_nowhere(host: Any, texts: list[str]) -> None:
    """No byte of output, plan, report, run or capture holds the token, the password or a private key."""
    site = host.lab.lab.site
    key = site.client_key.read_text("ascii").splitlines()[2]
    places = [
        *(path for path in host.home.rglob("*") if path.is_file()),
        *(path for path in (host.root / "var/lib/pvectl").rglob("*") if path.is_file()),
    ]
    assert len(places) > 5
    blobs = [text.encode() for text in texts] + [path.read_bytes() for path in places]
    with tarfile.open(host.home / "capture.tar.gz") as archive:
        members = [archive.extractfile(member) for member in archive.getmembers() if member.isfile()]
        blobs += [member.read() for member in members if member is not None]
    for secret in (host.token, site.read_secret(site.password), key):
        assert len(secret) > 20
        assert not [blob for blob in blobs if secret.encode() in blob]


@pytest.mark.laws
def test_a_reboot_of_ones_own_and_back_to_nothing(on_lab: Callable[..., Any], set_up: Callable[[Any], Any]) -> None:
    host = on_lab()
    before, beside = set_up(host), host.files("/var", "/usr", "/root")
    host.call("apply", "--yes").must(6, "--resume", "has to reboot")
    host.call("apply", "--resume").must(6, "has to reboot")
    _read_by_other_programs(host)
    host.lab.reboot()
    host.call("apply", "--resume").must(0, "Apply done")
    host.call("plan", "--detailed-exitcode").must(0)
    host.call("rollback", "--all", "--yes", "--stop-guests", "--reboot").must(0, "Rollback done")
    assert set_up(host) == before
    assert not (host.root / "var/lib/pvectl").exists()
    assert {path: what for path, what in host.files("/var", "/usr", "/root").items() if path in beside} == beside
    host.call("rollback", "--all", "--yes").must(0, "nothing to do")


def _read_by_other_programs(host: Any) -> None:
    """A shell, kmod and udev agree with what pvectl wrote for them."""
    script = f'GRUB_CMDLINE_LINUX_DEFAULT=quiet; . "{host.root / GRUB}"; echo "$GRUB_CMDLINE_LINUX_DEFAULT"'
    done = subprocess.run(("sh", "-euc", script), capture_output=True, text=True, check=True)
    assert done.stdout == "quiet iommu=pt\n"
    if shutil.which("modprobe"):
        argv = ("modprobe", "-C", str(host.root / MODPROBE), "--showconfig")
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert {"blacklist nouveau", "blacklist nvidia", "blacklist nvidia_drm"} <= set(done.stdout.splitlines())
    if _has_udev_verify():
        argv = ("udevadm", "verify", "--no-style", str(host.root / UDEV))
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def _has_udev_verify() -> bool:
    if not shutil.which("udevadm"):
        return False
    return subprocess.run(("udevadm", "verify", "--help"), capture_output=True, check=False).returncode == 0


def test_one_line_with_a_lab_of_its_own(tmp_path: Path) -> None:
    line = (
        "pvectl plan --detailed-exitcode; test $? -eq 2 && pvectl apply --yes --reboot && "
        "pvectl plan --detailed-exitcode && pvectl verify"
    )
    argv = (sys.executable, "-m", "provision.cli", "lab", "run", EPYC, "--", "sh", "-c", line)
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 failed, 0 undecided" in done.stdout


@pytest.mark.laws
def test_a_policy_that_changes_later_is_a_run_of_its_own(
    on_lab: Callable[..., Any], set_up: Callable[[Any], Any]
) -> None:
    """Two runs, undone one by one, newest first."""
    host = on_lab()
    before = set_up(host)
    wish = host.inventory(lambda d: d["policies"].update(iommu="keep"), "first.yaml")
    host.call("apply", "-i", wish, "--yes", "--reboot").must(0)
    between = set_up(host)
    host.call("apply", "--yes", "--reboot", "--stop-guests").must(0, "iommu=pt")
    assert len(host.runs()) == 2
    host.call("rollback", "--yes", "--stop-guests", "--reboot").must(0)
    assert set_up(host) == between
    host.call("plan", "-i", wish, "--detailed-exitcode").must(0)
    host.call("rollback", "--yes", "--stop-guests", "--reboot").must(0)
    assert set_up(host) == before


class Moved:
    """One thing that changed after the plan was made: how, and what the refusal must name."""

    def __init__(self, name: str, change: Callable[[Any], Any], *words: str) -> None:
        self.name, self.change, self.words = name, change, words


def _edit(path: str) -> Callable[[Any], None]:
    def change(host: Any) -> None:
        file = host.root / path
        file.write_bytes(file.read_bytes() + b"# edited by hand\n")

    return change


def _new_file(path: str, text: str) -> Callable[[Any], None]:
    return lambda host: (host.root / path).write_text(text)


def _set(host: Any, **options: object) -> None:
    path = host.root / "etc/pve/nodes/pve1/qemu-server/100.conf"
    kept = [line for line in path.read_text().splitlines() if line.partition(":")[0] not in options]
    path.write_text("\n".join(sorted([*kept, *(f"{key}: {value}" for key, value in options.items())])) + "\n")


def _add_mapping(host: Any) -> None:
    path = host.root / "etc/pve/mapping/pci.cfg"
    path.write_text(path.read_text() + "gpu-0\n\tmap id=10de:2bb5,iommugroup=11,node=pve1,path=0000:01:00.0\n\n")


MOVED = (
    Moved("grub", _edit("etc/default/grub"), "/etc/default/grub"),
    Moved("our-file", _new_file(MODPROBE, "options vfio-pci ids=1:2\n"), f"/{MODPROBE}"),
    Moved("mapping", lambda host: host.break_("stale-mapping"), "mapping/rtx6000"),
    Moved("vm", lambda host: _set(host, cores=8), "vm/100"),
    Moved("new-mapping", _add_mapping, "mapping/gpu-0"),
    Moved("gpu", lambda host: host.break_("renumber"), "0000:21:00.0"),
    Moved("host", lambda host: (host.root / "etc/machine-id").write_text("0" * 32 + "\n"), "machine-id"),
)


@pytest.mark.parametrize("moved", MOVED, ids=lambda moved: moved.name)
def test_a_plan_of_another_state_is_refused(on_lab: Callable[..., Any], moved: Moved) -> None:
    host = on_lab()
    host.call("plan", "-o", "plan.json").must(0)
    moved.change(host)
    before = host.files()
    answer = host.call("apply", "plan.json", "--yes", "--reboot").must(4, "pve1", "hint: make a new plan")
    lines = [line for line in answer.err.splitlines() if line.startswith("  moved: ")]
    assert all(any(word in line for line in lines) for word in moved.words), answer.err
    assert host.files() == before


@pytest.mark.laws
def test_a_boot_without_the_new_command_line_is_no_success(
    on_lab: Callable[..., Any], set_up: Callable[[Any], Any]
) -> None:
    """Firmware starts another disk's boot loader: everything was written, and the kernel does not have it."""
    host = on_lab(EPYC, "cmdline-lost")
    before = set_up(host)
    host.call("apply", "--yes", "--reboot").must(5, "pve1", "lacks iommu=pt", "not confirmed", "pvectl rollback")
    host.call("rollback", "--yes", "--reboot", "--stop-guests").must(0)
    assert set_up(host) == before


def test_a_mapping_of_somebody_else_is_no_concern_and_stays(
    on_lab: Callable[..., Any], set_up: Callable[[Any], Any]
) -> None:
    host = on_lab()
    host.call("plan", "-o", "plan.json").must(0)
    host.break_("mapping-edited")
    before = set_up(host)
    host.call("apply", "plan.json", "--yes").must(6)
    assert "added-by-hand" in (host.root / "etc/pve/mapping/pci.cfg").read_text()
    host.call("rollback", "--yes", "--stop-guests", "--reboot").must(0)
    assert set_up(host) == before


def test_an_edit_after_the_apply_stops_the_rollback(on_lab: Callable[..., Any]) -> None:
    host = on_lab()
    host.call("apply", "--yes").must(6)
    _edit(MODPROBE)(host)
    before = host.files()
    host.call("rollback", "--yes", "--stop-guests", "--reboot").must(4, f"/{MODPROBE}", "pve1", "hint: ")
    assert host.files() == before


def test_a_plan_for_another_host_is_refused(on_lab: Callable[..., Any]) -> None:
    host = on_lab()
    host.call("plan", "-o", "plan.json").must(0)
    path = host.home / "plan.json"
    document = json.loads(path.read_text())
    document["data"]["basis"]["machine_id"] = "f" * 32
    path.write_text(json.dumps(document))
    before = host.files()
    host.call("apply", "plan.json", "--yes").must(4, "machine-id", "pve1")
    assert host.files() == before
