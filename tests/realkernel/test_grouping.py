"""IOMMU groups as predicted before a boot, and as the kernel built them in it."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from rk_topology import HOSTS, REDIRECT_OFF, Host
from rk_vm import Vm

from provision.capture.collect import collect_host
from provision.evidence import Unknown
from provision.host.assemble import assemble
from provision.host.model import HostModel
from provision.pci.grouping import compare_present, options_for, predict_groups, predict_numbers
from provision.pci.identity import identity
from provision.remote.session import Session

pytestmark = pytest.mark.realkernel

BOOTS = [pytest.param(host, n, id=f"{host.name}-{n + 1}") for host in HOSTS for n in range(len(host.boots))]
PREDICTED = [pytest.param(host, n, id=f"{host.name}-{n + 1}") for host in HOSTS for n in range(1, len(host.boots))]
MERGING = [("reference", 2), ("reference", 3), ("reference", 4), ("expanders", 1), ("multifunction", 1), ("amd", 1)]
IOMMU_OFF = [("reference", 0), ("no-iommu-device", 0)]

Groups = tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class Boot:
    """What one boot of a host showed, and what had been predicted for it."""

    model: HostModel
    prediction: dict[str, Any] | None
    lspci: str
    console: str


class Boots:
    """Boots each host once with each of its command lines, in their order, and keeps what was read."""

    def __init__(self, image: Any, accel: str, folder: Path, times: Any) -> None:
        self._image, self._accel, self._folder, self._times = image, accel, folder, times
        self._done: dict[tuple[str, int], Boot | Exception] = {}

    def get(self, host: Host, number: int) -> Boot:
        key = (host.name, number)
        if key not in self._done:
            before = self.get(host, number - 1).model if number else None
            try:
                self._done[key] = self._boot(host, number, before)
            except RuntimeError as error:  # once is enough: every further test of this boot says the same
                self._done[key] = error
        found = self._done[key]
        if isinstance(found, Exception):
            raise found
        return found

    def _boot(self, host: Host, number: int, before: HostModel | None) -> Boot:
        cmdline = host.boots[number]
        folder = self._folder / f"{host.name}-{number + 1}"
        folder.mkdir(parents=True)
        file = folder / "prediction.json"
        if before is not None:
            file.write_text(json.dumps(predict(before, cmdline), indent=1), "utf-8")
        vm = Vm(self._image, host.hardware, folder, cmdline=cmdline, accel=self._accel)
        try:
            with self._times.of(f"{host.name}: boot with {cmdline!r}, read, stop"):
                vm.start()
                vm.wait_ready()
                with vm.session() as session:
                    for bdf in host.virtual_functions:
                        make_virtual_functions(session, bdf)
                    model = assemble(collect_host(session))
                    lspci = session.run(("lspci", "-D", "-vvv"), timeout=120).stdout.decode("utf-8", "replace")
        finally:
            vm.stop()
        prediction = json.loads(file.read_text("utf-8")) if file.exists() else None
        return Boot(model, prediction, lspci, vm.console())


def make_virtual_functions(session: Session, bdf: str) -> None:
    script = f"modprobe nvme; echo 3 >/sys/bus/pci/devices/{bdf}/sriov_numvfs"
    result = session.run(("sh", "-c", script), timeout=120)
    if result.rc:
        raise RuntimeError(f"no virtual functions of {bdf}: {result.stderr!r}")


def predict(before: HostModel, cmdline: str) -> dict[str, Any]:
    """Predict the groups of the next boot from this one and the new command line."""
    options = options_for(before, cmdline)
    groups, numbers = predict_groups(before.pci, options), predict_numbers(before, options)
    return {
        "cmdline": cmdline,
        "groups": {"unknown": str(groups)} if isinstance(groups, Unknown) else [list(group) for group in groups],
        "numbers": {"unknown": str(numbers)} if isinstance(numbers, Unknown) else numbers,
    }


def groups_of(model: HostModel) -> Groups:
    """The groups as the kernel shows them, by number."""
    return tuple(group.members for group in sorted(model.iommu.groups, key=lambda group: group.number))


def numbers_of(model: HostModel) -> dict[str, int]:
    return {bdf: group.number for group in model.iommu.groups for bdf in group.members}


@pytest.fixture(scope="session")
def boots(host_image: Any, accel: str, tmp_path_factory: pytest.TempPathFactory, times: Any) -> Boots:
    return Boots(host_image, accel, tmp_path_factory.mktemp("boots"), times)


@pytest.mark.parametrize(("host", "number"), BOOTS)
def test_present_grouping_is_reproduced(boots: Boots, host: Host, number: int) -> None:
    model = boots.get(host, number).model
    comparison = compare_present(model)
    assert comparison.result == "equal", comparison.details
    assert host.boots[number] in str(model.kernel.running_cmdline)


@pytest.mark.parametrize(("host", "number"), PREDICTED)
def test_predicted_grouping_is_the_kernels(boots: Boots, host: Host, number: int) -> None:
    boot = boots.get(host, number)
    assert boot.prediction is not None
    if number in host.undecided:
        assert "keeps bits of the firmware" in boot.prediction["groups"]["unknown"]
        return
    assert [tuple(group) for group in boot.prediction["groups"]] == list(groups_of(boot.model))


@pytest.mark.parametrize(("host", "number"), PREDICTED)
def test_predicted_grouping_has_the_kernels_numbers(boots: Boots, host: Host, number: int) -> None:
    boot = boots.get(host, number)
    assert boot.prediction is not None
    numbers = boot.prediction["numbers"]
    if number in host.undecided:
        assert "keeps bits of the firmware" in numbers["unknown"]
    elif "unknown" in numbers:
        # Where the IOMMU was off before, nobody can know which functions it will cover.
        assert "the IOMMU is off now" in numbers["unknown"]
        assert not boots.get(host, number - 1).model.iommu.groups
    else:
        assert numbers == numbers_of(boot.model)


@pytest.mark.parametrize(("name", "number"), MERGING)
def test_grouping_parameters_merge_groups(boots: Boots, name: str, number: int) -> None:
    host = _host(name)
    plain = next(n for n, line in enumerate(host.boots) if "pci=" not in line and "off" not in line)
    assert len(groups_of(boots.get(host, number).model)) < len(groups_of(boots.get(host, plain).model))


@pytest.mark.parametrize(("name", "number"), IOMMU_OFF)
def test_grouping_is_empty_where_the_iommu_is_off(boots: Boots, name: str, number: int) -> None:
    model = boots.get(_host(name), number).model
    assert model.iommu.groups == ()
    assert model.iommu.units == ()


def test_grouping_keeps_a_port_without_acs_with_what_is_below_it(boots: Boots) -> None:
    groups = groups_of(boots.get(_host("reference"), 1).model)
    assert ("0000:00:04.0", "0000:02:00.0") in groups


def test_grouping_puts_all_behind_a_conventional_bridge_together(boots: Boots) -> None:
    model = boots.get(_host("conventional"), 1).model
    bridge = next(fn for fn in model.pci if fn.ids == "1b36:000e" and fn.root == "pci0000:00")
    below = {fn.bdf for fn in model.pci if fn.parent == bridge.bdf}
    group = model.group_of(bridge.bdf)
    assert len(below) == 3
    assert group is not None
    assert below < set(group.members)


def test_grouping_of_virtual_functions_follows_the_port(boots: Boots) -> None:
    model = boots.get(_host("virtual-functions"), 0).model
    for parent in ("0000:01:00.0", "0000:02:00.0"):
        virtual = [fn for fn in model.pci if fn.physfn == parent]
        assert len(virtual) == 3
        groups = {str(model.group_of(fn.bdf)) for fn in virtual} | {str(model.group_of(parent))}
        assert len(groups) == (4 if parent == "0000:01:00.0" else 1)


def test_grouping_keeps_the_functions_of_a_card_without_acs_together(boots: Boots) -> None:
    groups = groups_of(boots.get(_host("multifunction"), 0).model)
    assert ("0000:01:00.0", "0000:01:00.1", "0000:01:00.2") in groups


@pytest.mark.parametrize(("host", "number"), BOOTS)
def test_acs_bits_for_grouping_are_what_lspci_reads(boots: Boots, host: Host, number: int) -> None:
    boot = boots.get(host, number)
    seen = {}
    for fn in boot.model.pci:
        assert not isinstance(fn.config, Unknown)
        acs = fn.config.acs
        assert not isinstance(acs, Unknown)
        if acs is not None:
            seen[fn.bdf] = (acs.capability, acs.control)
    assert seen == dict(acs_of_lspci(boot.lspci))
    assert seen


LSPCI_BITS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")
"""The names that lspci gives the bits, from bit 0 up."""


def acs_of_lspci(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Read ACSCap and ACSCtl of each function out of ``lspci -D -vvv``."""
    for block in text.split("\n\n"):
        registers = {name: _mask(flags.split()) for name, flags in re.findall(r"ACS(Cap|Ctl):\s(.*)", block)}
        if registers:
            yield block.lstrip().split(" ", 1)[0], (registers["Cap"], registers["Ctl"])


def _mask(words: list[str]) -> int:
    assert tuple(word[:-1] for word in words) == LSPCI_BITS
    return sum(1 << bit for bit, word in enumerate(words) if word.endswith("+"))


def test_parameters_for_grouping_reach_the_registers(boots: Boots) -> None:
    host = _host("reference")
    model = boots.get(host, host.boots.index(REDIRECT_OFF)).model
    controls = defaultdict(set)
    for fn in model.pci:
        if not isinstance(fn.config, Unknown) and fn.config.acs and not isinstance(fn.config.acs, Unknown):
            controls[fn.ids].add(fn.config.acs.control)
    assert controls["1b36:000c"] == {0}


def test_every_device_is_found_again_after_a_card_was_added_though_grouping_moved(boots: Boots) -> None:
    before, after = boots.get(_host("reference"), 1).model, boots.get(_host("card-in-front"), 0).model
    new = {}
    for fn in after.pci:
        who = identity(fn, after.pci)
        assert not isinstance(who, Unknown), f"{fn.bdf}: {who}"
        assert who not in new.values(), fn.bdf
        new[fn.bdf] = who
    moved = 0
    for fn in before.pci:
        found = [bdf for bdf, who in new.items() if who == identity(fn, before.pci)]
        assert len(found) == 1, f"{fn.bdf} {identity(fn, before.pci)}"
        moved += found[0] != fn.bdf
    assert moved >= 10
    assert len(after.pci) == len(before.pci) + 2
    old, now = numbers_of(before), numbers_of(after)
    assert now["0000:00:03.0"] == old["0000:00:03.0"] + 1


def _host(name: str) -> Host:
    return next(host for host in HOSTS if host.name == name)
