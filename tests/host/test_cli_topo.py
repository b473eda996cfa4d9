"""``pvectl topo --from``: a saved capture is enough."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provision.capture.store import save
from provision.cli.output import OutputFormat
from provision.cli.topo import command
from provision.errors import CaptureError, UsageError

Make = Callable[..., Any]


@pytest.fixture
def saved(server: Make, tmp_path: Path) -> Path:
    path = tmp_path / "pve1.tar.gz"
    save(server(2).capture(), path)
    return path


def test_text(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(from_=[saved]) == 0
    out = capsys.readouterr().out
    assert out.startswith("pve1: Proxmox VE 9.0.3")
    assert out.endswith(f"Next: pvectl doctor --from {saved}\n")


def test_json_is_the_model(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(from_=[saved], output=OutputFormat.json) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "pvectl.model/1"
    assert [fn["bdf"] for fn in document["data"]["pci"] if fn["class_code"] == 0x030200] == [
        "0000:11:00.0", "0000:1d:00.0",
    ]  # fmt: skip


def test_what_is_no_capture(tmp_path: Path) -> None:
    path = tmp_path / "note.tar.gz"
    path.write_text("no capture")
    with pytest.raises(CaptureError):
        command(from_=[path])


def test_without_a_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PVECTL_INVENTORY", raising=False)
    with pytest.raises(UsageError):
        command()
