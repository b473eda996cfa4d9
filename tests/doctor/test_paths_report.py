"""The paths report of whole machines: from the lab's captures, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from provision.capture.store import load, save
from provision.cli.context import load_or_read, resolve
from provision.doctor.pair_words import compress, spans
from provision.doctor.paths_report import PathsReport, paths_report
from provision.doctor.paths_text import render
from provision.evidence import Unknown
from provision.host.assemble import assemble
from provision.host.model import HostModel
from provision.lab import supervisor

DARK = Unknown(unknown="not read", supply="read it")
MACHINES = ("epyc-8x-rtxpro6000", "switch-4x4", "workstation-shared-nic")


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("captures")
    found = {}
    for machine in MACHINES:
        with supervisor.running(machine) as lab:
            found[machine] = folder / f"{machine}.tar.gz"
            save(load_or_read(resolve(None, lab.inventory), None), found[machine])
    return found


@pytest.fixture(scope="module")
def models(captures: dict[str, Path]) -> dict[str, HostModel]:
    return {machine: assemble(load(path)) for machine, path in captures.items()}


def classes(report: PathsReport) -> list[object]:
    return [path.path for path in report.paths]


def test_direct_attached_on_two_sockets(models: dict[str, HostModel]) -> None:
    report = paths_report(models["epyc-8x-rtxpro6000"])
    assert len(report.gpus) == 8
    assert (classes(report).count("NODE"), classes(report).count("SYS")) == (24, 32)
    assert {told.vm.verdict for told in report.forecasts} == {"grantable"}
    assert all(row.window.room == "yes" for row in report.gpus)
    guests = report.guests
    assert isinstance(guests, tuple)
    assert guests[0].order == (4, 5, 6, 7, 0, 1, 2, 3)
    fit = guests[0].fit
    assert fit is not None
    assert (fit.verdict, fit.changes[-1].value) == ("no", "host")


def test_behind_switches(models: dict[str, HostModel]) -> None:
    report = paths_report(models["switch-4x4"])
    assert (classes(report).count("PIX"), classes(report).count("SYS")) == (24, 32)
    inside = [path for path in report.paths if path.path == "PIX"]
    assert all(path.is_redirected is True for path in inside)
    assert len({path.common for path in inside if isinstance(path.common, str)}) == 2


@pytest.mark.parametrize("machine", MACHINES)
def test_text_fits_the_terminal_and_json_comes_back(machine: str, models: dict[str, HostModel]) -> None:
    report = paths_report(models[machine])
    text = render(report, "pvectl doctor x")
    assert max(len(line) for line in text.splitlines()) <= 100
    assert text.endswith("Next: pvectl doctor x\n")
    assert PathsReport.model_validate_json(report.model_dump_json()) == report


def test_sixteen_gpus_fit_too(models: dict[str, HostModel]) -> None:
    model = models["epyc-8x-rtxpro6000"]
    twins = tuple(
        fn.model_copy(
            update={
                "bdf": fn.bdf.replace("0000:", "0001:"),
                "parent": fn.parent and fn.parent.replace("0000:", "0001:"),
                "root": fn.root.replace("pci0000", "pci0001"),
            }
        )
        for fn in model.pci
    )
    text = render(paths_report(model.model_copy(update={"pci": (*model.pci, *twins)})))
    assert "GPU15" in text
    assert max(len(line) for line in text.splitlines()) <= 100


def test_nothing_known_is_no_verdict(models: dict[str, HostModel]) -> None:
    model = models["switch-4x4"]
    dark = {"config": DARK, "numa_node": DARK, "bars": DARK, "iommu_unit": DARK, "vf_bars": DARK}
    blind = model.model_copy(
        update={
            "pci": tuple(fn.model_copy(update=dark) for fn in model.pci),
            "kernel": model.kernel.model_copy(update={"cpu_vendor": DARK, "phys_bits": DARK, "numa_nodes": DARK}),
            "iommu": model.iommu.model_copy(update={"units": DARK}),
            "proxmox": model.proxmox.model_copy(update={"vms": DARK}),
        }
    )
    report = paths_report(blind)
    assert {told.vm.verdict for told in report.forecasts} == {"unknown"}
    assert {told.bare_metal.verdict for told in report.forecasts} == {"unknown"}
    assert all(row.window.room == "unknown" for row in report.gpus)
    text = render(report)
    assert "not read; to supply it: read it" in text
    assert "likely" not in text
    assert "VMs: ? [" in text


def test_no_two_empty_lines_stand_together(models: dict[str, HostModel]) -> None:
    for model in models.values():
        text = render(paths_report(model), "pvectl doctor pve1")
        assert "\n\n\n" not in text
        assert text.endswith("\n\nNext: pvectl doctor pve1\n")


def test_the_command(captures: dict[str, Path]) -> None:
    import typer

    from provision.cli.paths import command

    app = typer.Typer()
    app.command()(command)
    path = str(captures["workstation-shared-nic"])
    shown = CliRunner().invoke(app, ["--from", path])
    assert "GPU0   X    PHB" in shown.output
    data = json.loads(CliRunner().invoke(app, ["--from", path, "--output", "json"]).output)
    assert data["schema"] == "pvectl.paths/1"
    assert len(data["data"]["gpus"]) == 2


def test_pairs_in_words() -> None:
    four = tuple((a, b) for a in range(4) for b in range(4) if a != b)
    assert compress(four) == "among 0-3"
    assert compress(tuple((a, b) for a in range(4) for b in range(4, 8))) == "0-3 -> 4-7"
    assert compress(((0, 2), (1, 2), (2, 0))) == "among 0,2; 1 -> 2"
    assert spans([5, 1, 2, 3, 7]) == "1-3,5,7"
