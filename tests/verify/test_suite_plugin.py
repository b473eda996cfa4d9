"""The suite and the modules as users run them: over ssh and over pvectl's own way, with skip, fail and error."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from provision.verify.modules.carry import LONGEST, carried, reader_source
from provision.verify.modules.reader import collect

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "test_my_gpus.py"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, lab_host: Any) -> Iterator[Any]:
    from provision.lab.supervisor import running

    with running("epyc-8x-rtxpro6000", boot_delay=0.05) as started:
        host = lab_host(started, tmp_path_factory.mktemp("home"))
        host.call("apply", "--yes", "--reboot").must(0)
        host.wait(lambda: 100 in started.lab.guests.running)
        yield host
        host.close()


def run(lab: Any, hosts: str, *words: str) -> tuple[int, str, dict[str, ET.Element]]:
    """Run pytest as a user does; return its exit code, its text and the cases of its JUnit report."""
    argv = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(lab.home))
    more = (f"--hosts={hosts}", f"--ssh-config={lab.lab.lab.site.ssh_config}", "--junitxml=j.xml", "-rA", "-W", "error")
    done = subprocess.run(
        (*argv, *more, *words), cwd=lab.home, env=lab.env(), capture_output=True, text=True, check=False
    )
    cases = {str(case.get("name")): case for case in ET.parse(lab.home / "j.xml").getroot().iter("testcase")}
    return done.returncode, done.stdout + done.stderr, cases


def guest_of(lab: Any) -> str:
    return str(lab.lab.machine.guests[100].hostname)


@pytest.mark.story
def test_a_guest_over_ssh_with_an_inventory(lab: Any) -> None:
    name = guest_of(lab)
    code, text, cases = run(
        lab, f"ssh://{name}", f"--pvectl-inventory={lab.lab.inventory}", "--pyargs", "provision.verify.suite"
    )
    assert code == 0, text
    figures = {
        prop.get("name"): prop.get("value") for prop in cases[f"test_claim[guest-gpus-ssh://{name}]"].iter("property")
    }
    assert (figures["gpus_on_bus"], figures["gpu7_bar1_bytes"]) == ("8", str(128 << 30))
    assert "is a guest, and this is about a host" in text


@pytest.mark.story
def test_a_guest_without_an_inventory(lab: Any) -> None:
    code, text, _cases = run(lab, f"ssh://{guest_of(lab)}", "--pyargs", "provision.verify.suite")
    assert code == 0, text
    assert "no inventory says what is wanted" in text


@pytest.mark.story
def test_host_and_guest_over_pvectls_own_way(lab: Any) -> None:
    hosts = f"pvectl://guest-100,pvectl://{lab.lab.machine.node}"
    code, text, _cases = run(
        lab, hosts, f"--pvectl-inventory={lab.lab.inventory}", "--pyargs", "provision.verify.suite"
    )
    assert code == 0, text
    assert "test_gpus_are_bound_to_vfio[pvectl://pve1]" in text


@pytest.mark.story
def test_the_example_of_the_documentation(lab: Any) -> None:
    code, text, _cases = run(lab, f"ssh://{guest_of(lab)}", str(EXAMPLE))
    assert code == 0, text


OUTCOMES = """
import pytest
from provision.errors import Undecided

def test_true(pci_devices, same_boot):
    assert len(pci_devices.nvidia_gpus) == 8

def test_false(nvidia_gpus, same_boot):
    assert nvidia_gpus.count == 9

def test_could_not_look(host):
    raise Undecided("Unable to look: no way", "make one")

def test_not_applicable():
    pytest.skip("not applicable: for another machine")

def test_booted_in_the_middle(host, same_boot, monkeypatch):
    import provision.verify.plugin as plugin
    plugin._boot_of = lambda host: "another"
"""


@pytest.mark.story
def test_skip_fail_and_error_are_told_apart(lab: Any) -> None:
    (lab.home / "test_outcomes.py").write_text(OUTCOMES)
    name = guest_of(lab)
    code, text, cases = run(lab, f"ssh://{name}", "test_outcomes.py")
    assert code == 1, text
    found = {case: [child.tag for child in element if child.tag != "properties"] for case, element in cases.items()}
    where = f"[ssh://{name}]"
    assert found == {
        f"test_true{where}": [],
        f"test_false{where}": ["failure"],
        f"test_could_not_look{where}": ["error"],
        "test_not_applicable": ["skipped"],
        f"test_booted_in_the_middle{where}": ["error"],
    }, text
    assert "booted anew in the middle" in text


def test_a_machine_that_cannot_be_reached_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text("def test_x(kernel_cmdline):\n    assert kernel_cmdline.text\n")
    argv = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "test_x.py")
    ways = ("--hosts=ssh://nobody@127.0.0.1:1",)
    done = subprocess.run((*argv, *ways), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "1 error" in done.stdout, done.stdout
    assert "failed" not in done.stdout


def test_modules_on_the_local_machine() -> None:
    import testinfra

    from provision.errors import Undecided
    from provision.verify.modules.kernel_cmdline import KernelCmdline
    from provision.verify.modules.pci_devices import PciDevices

    host = testinfra.get_host("local://")
    cmdline = KernelCmdline(host)
    assert cmdline.text == Path("/proc/cmdline").read_text().strip()
    if not any(Path("/sys/bus/pci/devices").glob("*")):
        with pytest.raises(Undecided):
            PciDevices(host)
        return
    names = sorted(path.name for path in Path("/sys/bus/pci/devices").iterdir())
    assert [device.bdf for device in PciDevices(host)] == names


class Canned:
    """A testinfra host that answers every command with one text."""

    def __init__(self, text: str, rc: int = 0) -> None:
        self.text, self.rc = text, rc
        self.backend = self

    def get_pytest_id(self) -> str:
        return "canned://x"

    def run(self, *_words: str) -> Any:
        return type("Done", (), {"rc": self.rc, "stdout": self.text, "stderr": "no"})()


def test_kernel_cmdline_reads_as_the_kernel_does() -> None:
    from provision.verify.modules.kernel_cmdline import KernelCmdline

    cmdline = KernelCmdline(Canned('quiet iommu=pt vfio-pci.ids=10de:2bb5 iommu=off dyndbg="file a b"\n'))
    assert "quiet" in cmdline
    assert "iommu=pt" in cmdline
    assert "vfio_pci.ids" in cmdline
    assert "iommu" in cmdline
    assert "pt" not in cmdline
    assert cmdline.value("iommu") == "off"
    assert cmdline.values("iommu") == ("pt", "off")
    assert cmdline.value("dyndbg") == "file a b"


def tree(top: Path) -> Path:
    """A small machine: a GPU with its sound function in group 5, a network card beside it, a bridge."""
    rows = {
        "0000:00:01.0": ("0x1022", "0x1483", "0x060400", None, 5),
        "0000:01:00.0": ("0x10de", "0x2bb5", "0x030200", "vfio-pci", 5),
        "0000:01:00.1": ("0x10de", "0x22e8", "0x040300", "vfio-pci", 5),
        "0000:02:00.0": ("0x8086", "0x1572", "0x020000", None, 6),
    }
    for bdf, (vendor, device, class_code, driver, group) in rows.items():
        folder = top / "sys/bus/pci/devices" / bdf
        folder.mkdir(parents=True)
        for name, text in (("vendor", vendor), ("device", device), ("class", class_code), ("numa_node", "0")):
            (folder / name).write_text(text + "\n")
        (folder / "iommu_group").symlink_to(f"../groups/{group}")
        if driver:
            (folder / "driver").symlink_to(f"../drivers/{driver}")
    return top


@pytest.fixture
def from_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    from provision.verify.modules import pci_devices

    root = tree(tmp_path)
    monkeypatch.setattr(pci_devices, "read_paths", lambda _host, *patterns: collect(patterns, str(root)))
    return lambda: pci_devices.PciDevices(Canned(""))


def test_devices_and_groups_from_plain_files(from_tree: Callable[[], Any]) -> None:
    from provision.verify.modules.iommu_groups import IommuGroups

    devices = from_tree()
    assert [d.bdf for d in devices.by_id("10de:2bb5")] == ["0000:01:00.0"]
    assert len(devices.by_id("10de")) == 2
    assert [d.bdf for d in devices.by_class("0x02")] == ["0000:02:00.0"]
    assert [d.bdf for d in devices.by_driver("vfio-pci")] == ["0000:01:00.0", "0000:01:00.1"]
    assert devices.get("01:00.0") == devices.nvidia_gpus[0]
    groups = IommuGroups(devices)
    assert groups.is_on
    assert groups.group_of("0000:01:00.0") == 5
    assert groups.isolated("0000:01:00.0")
    assert len(groups.members(5)) == 3
    with pytest.raises(KeyError):
        groups.group_of("0000:09:00.0")


def test_programs_fit_on_a_command_line() -> None:
    from provision.guest.bundle import probe_source

    assert len(carried(probe_source())) < LONGEST
    text = carried(reader_source())
    assert not set(text) & set("'$!\\\n")


def test_no_python_there_is_undecided() -> None:
    from provision.errors import Undecided
    from provision.verify.modules.nvidia_gpus import NvidiaGpus

    with pytest.raises(Undecided, match="there is no python3"):
        NvidiaGpus(Canned("", 127))
