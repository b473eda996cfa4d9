"""The probe over the recorded guest, and what it does when levels are missing."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from provision.errors import Undecided
from provision.evidence import Unknown
from provision.guest.bundle import probe_source
from provision.guest.facts import SCHEMAS, GuestFacts, parse_probe
from provision.guest.onboard import child, main
from provision.guest.onboard.errors import CallFailed, Missing

sys.path.insert(0, str(Path(__file__).resolve().parent))
import h200_guest as guest


def run(root: Path, libraries: Any) -> GuestFacts:
    out = io.StringIO()
    assert main.main((), out, str(root), libraries) == 0
    return parse_probe(out.getvalue(), 100)


def test_recorded_guest_is_read_on_every_level(tmp_path: Path) -> None:
    facts = run(guest.build_root(tmp_path), guest.Recorded())
    assert facts.virtualization.is_guest is True
    assert facts.virtualization.is_hidden is False
    assert [gpu.bdf for gpu in facts.pci] == ["0000:00:06.0", "0000:00:07.0"]
    assert facts.pci[0].bar_bytes[2] == 256 << 30
    assert facts.module.open is True
    assert facts.module.version == guest.VERSION
    assert [gpu.firmware for gpu in facts.proc] == [guest.VERSION] * 2
    assert not isinstance(facts.nvml, Unknown)
    assert facts.nvml[1].gsp_version == guest.VERSION
    assert not isinstance(facts.p2p, Unknown)
    assert facts.p2p["write"] == (("X", "OK"), ("OK", "X"))
    assert facts.p2p["pcie"][0][1] == "NS"


def test_runs_from_standard_input_without_site_or_folder(tmp_path: Path) -> None:
    """As on a real guest: no file is left and a json.py beside it is not imported."""
    (tmp_path / "json.py").write_text("raise SystemExit(99)\n")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-"], input=probe_source().encode(), cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == SCHEMAS[-1]
    assert [p.name for p in tmp_path.iterdir()] == ["json.py"]


def test_missing_libraries_are_unknown_and_the_rest_is_read(tmp_path: Path) -> None:
    class Bare(guest.Recorded):
        def nvml(self) -> Any:
            raise Missing("libnvidia-ml.so.1 is not there")

        def cuda(self) -> Any:
            raise CallFailed("cuInit", 999)

    facts = run(guest.build_root(tmp_path), Bare())
    assert isinstance(facts.nvml, Unknown)
    assert "libnvidia-ml" in facts.nvml.unknown
    assert isinstance(facts.cuda, Unknown)
    assert "999" in facts.cuda.unknown
    assert len(facts.pci) == 2


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (b"\0" * 64, Unknown),
        (b"\0" * 256, None),
        (b"\0" * 0x34 + b"\xd4" + b"\0" * (0xD4 - 0x35) + b"\x09\x00\x08P2P\x18\x00" + b"\0" * 40, 3),
        (b"\0" * 0x34 + b"\x40" + b"\0" * 11 + b"\x01\x40" + b"\0" * 190, None),
    ],
    ids=["unreadable", "without", "clique 3", "loop"],
)
def test_clique_has_three_states(tmp_path: Path, config: bytes, expected: Any) -> None:
    facts = run(guest.build_root(tmp_path, config=config), guest.Recorded())
    found = facts.pci[0].clique
    assert isinstance(found, Unknown) if expected is Unknown else found == expected


def test_a_hang_and_a_crash_in_a_child_are_results() -> None:
    def crash() -> dict[str, Any]:
        import os

        os.kill(os.getpid(), 9)
        return {}

    assert child.in_child(lambda: time.sleep(30) or {}, 0.2)["state"] == "hang"
    assert child.in_child(crash, 5.0) == {"state": "crash", "reason": "the child ended by signal 9"}
    assert child.in_child(lambda: {"state": "ok"}, 5.0) == {"state": "ok"}


@pytest.mark.parametrize("text", ["", "bash: python3: command not found", '{"schema": "other/1"}', "[1, 2"])
def test_an_answer_that_is_none_is_undecided(text: str) -> None:
    with pytest.raises(Undecided, match="guest 100"):
        parse_probe(text, 100)


def test_noise_around_the_answer_is_skipped(tmp_path: Path) -> None:
    out = io.StringIO("Welcome!\n")
    out.seek(0, 2)
    main.main((), out, str(guest.build_root(tmp_path)), guest.Recorded())
    assert parse_probe(out.getvalue() + "logout\n", 100).vmid == 100


@pytest.mark.parametrize(
    ("signature", "hidden"), [("KVMKVMKVM", False), ("", True), ("NV43FIX", True), ("Microsoft Hv", False)]
)
def test_hidden_hypervisor(tmp_path: Path, signature: str, hidden: bool) -> None:
    facts = run(guest.build_root(tmp_path), guest.Recorded(signature=signature))
    assert facts.virtualization.is_hidden is hidden
