"""The unit that goes on with a run on its own host, started by a boot of the simulated host."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.lab.services import UNIT
from provision.lab.supervisor import RunningLab

FOLDER = "etc/systemd/system"
RUN = "20260102T030405Z-0a1b2c"


def install(lab: RunningLab, command: str, *, condition: str = "/etc/hostname", enabled: bool = True) -> None:
    unit = lab.root / FOLDER / UNIT
    unit.write_text(f"[Unit]\nConditionPathExists={condition}\n[Service]\nType=oneshot\nExecStart={command}\n")
    if enabled:
        wants = lab.root / FOLDER / "multi-user.target.wants"
        wants.mkdir(parents=True, exist_ok=True)
        (wants / UNIT).symlink_to(f"/{FOLDER}/{UNIT}")


def pvectl(lab: RunningLab) -> str:
    return f'"/opt/my tools/pvectl" "apply" "pve1" "-i" "{lab.inventory_on_host}" "--yes" "--resume" "{RUN}"'


def test_a_boot_starts_this_very_pvectl_through_the_door(lab: RunningLab) -> None:
    install(lab, pvectl(lab))
    assert lab.wait_for_services() == [], "only a boot starts it"
    lab.reboot()
    (answer,) = lab.wait_for_services()
    assert answer.rc != 0
    assert RUN in answer.err, "this host has no such run, and pvectl says so"


@pytest.mark.parametrize("how", [{"enabled": False}, {"condition": "/nowhere"}], ids=["disabled", "its condition"])
def test_it_is_not_started(lab: RunningLab, how: dict[str, object]) -> None:
    install(lab, pvectl(lab), **how)  # type: ignore[arg-type]
    lab.reboot()
    assert lab.wait_for_services() == []


@pytest.mark.parametrize(
    "command",
    ["/bin/touch {mark}", "/usr/bin/pvectl rollback --all --yes", "/usr/bin/python3 -c pass apply --resume x"],
)
def test_no_other_program_is_run(lab: RunningLab, tmp_path: Path, command: str) -> None:
    mark = tmp_path / "mark"
    install(lab, command.format(mark=mark))
    lab.reboot()
    (answer,) = lab.wait_for_services()
    assert answer.rc == 126
    assert "the lab runs no program but pvectl's own" in answer.err
    assert not mark.exists()


def test_a_reboot_ends_what_it_runs(lab: RunningLab) -> None:
    install(lab, pvectl(lab))
    for _ in range(3):
        lab.reboot()
    answers = lab.wait_for_services()
    assert 1 <= len(answers) <= 3
    assert all(answer.rc for answer in answers)
