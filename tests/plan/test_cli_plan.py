"""``pvectl plan`` from a saved capture: text, JSON, a file for apply, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provision.capture.store import save
from provision.cli import app
from provision.plan.model import Plan

INVENTORY = """\
hosts:
  pve1:
    address: root@192.0.2.11
    vms:
      100:
        gpus: all
policies:
  iommu: pt
"""


@pytest.fixture
def site(lab: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """``site(machine)``: the arguments that plan for this lab machine from its capture."""
    monkeypatch.chdir(tmp_path)

    def make(name: str = "epyc-8x-rtxpro6000", inventory: str = INVENTORY) -> list[str]:
        capture, file = tmp_path / f"{name}.tar.gz", tmp_path / "pvectl.yaml"
        save(lab(name).capture(), capture)
        file.write_text(inventory)
        return ["plan", "pve1", "-i", str(file), "--from", str(capture)]

    return make


def test_text_json_and_file(site: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = site()
    assert app.run([*argv, "-o", "plan.json"]) == 0
    seen = capsys.readouterr()
    assert "Plan for pve1: 18 steps, one reboot." in seen.out
    assert "Next: pvectl apply plan.json" in seen.out
    assert "plan written to plan.json" in seen.err
    document = json.loads((tmp_path / "plan.json").read_text())
    assert document["schema"] == "pvectl.plan/1"
    assert len(Plan.model_validate_json(json.dumps(document["data"])).changes) == 18
    assert app.run([*argv, "--output", "json", "--detailed-exitcode"]) == 2
    assert json.loads(capsys.readouterr().out)["data"] == document["data"]


def test_a_refusal_is_exit_4(site: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(site("workstation-shared-nic")) == 4
    seen = capsys.readouterr()
    assert "also holds" in seen.err
    assert "hint:" in seen.err
    assert seen.out == ""


def test_a_wish_that_does_not_fit_is_exit_64(site: Callable[..., list[str]]) -> None:
    assert app.run(site(inventory=INVENTORY.replace("100:", "101:"))) == 64


def test_a_host_without_an_inventory_is_exit_64(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert app.run(["plan", "root@192.0.2.11"]) == 64
    assert "pvectl init" in capsys.readouterr().err


def test_a_plan_that_cannot_be_written_is_an_error(site: Callable[..., list[str]]) -> None:
    assert app.run([*site(), "-o", "nowhere/plan.json"]) == 1
