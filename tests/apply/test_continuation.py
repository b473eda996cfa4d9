"""A run on its own host: the reboot ends pvectl, and a one-shot unit goes on."""

from __future__ import annotations

import shlex

import pytest

SYSTEM = "/etc/systemd/system"
UNIT = f"{SYSTEM}/pvectl-resume.service"
ARGV = ("/opt/my tools/pvectl", "apply", "local", "-i", "/etc/100%.yaml", "--yes", "--resume")


class Ended(BaseException):
    """The host took the controller with it."""


@pytest.fixture
def gone(bench):
    """A local apply whose process the reboot has ended."""
    real = bench.host.reboot

    def reboot() -> None:
        real()
        raise Ended

    bench.host.reboot = reboot
    with pytest.raises(Ended):
        bench.apply(bench.plan(), reboot=True, resume_argv=ARGV)
    bench.host.reboot = real
    return bench


def test_the_unit_is_on_disk_and_enabled_before_the_reboot(gone):
    text = gone.host.files[UNIT].data.decode()
    [line] = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    words = shlex.split(line.removeprefix("ExecStart="))
    run = words[-1]
    assert words[:-1] == [word.replace("%", "%%") for word in ARGV]
    assert f"/var/lib/pvectl/runs/{run}/journal.jsonl" in gone.host.files
    assert f"{SYSTEM}/timers.target.wants/pvectl-resume.service" in gone.host.files
    assert text.startswith("# Written by pvectl for run ")


def test_what_it_starts_ends_the_run_and_removes_it(gone):
    assert gone.resume().status == "done"
    assert not [path for path in gone.host.files if "pvectl-resume" in path and not path.startswith("/var/lib/pvectl")]
    assert ("systemctl", "disable", "--now", "pvectl-resume.service") not in gone.host.commands, "it would end itself"


def test_rollback_instead_of_it(gone, fresh_bench):
    original = fresh_bench().host.snapshot()
    gone.rollback(reboot=True)
    assert gone.host.snapshot() == original


def test_on_another_machine_there_is_none(bench):
    bench.apply(bench.plan(), reboot=True)
    assert UNIT not in bench.host.files
    assert ("systemctl", "enable", "pvectl-resume.service") not in bench.host.commands
