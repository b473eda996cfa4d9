"""Small values: names, property strings compared, identities, plan files."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from provision.apply import places
from provision.apply.host_files import folder_entries, read_file, read_matches
from provision.apply.identity import parse_identities, render_identities
from provision.apply.objects import same_entries, same_option, same_text
from provision.apply.runs import parse_plan
from provision.capture.model import Item
from provision.envelope import dumps, wrap
from provision.errors import PvectlError
from provision.pci.model import Identity
from provision.remote.session import Read


def test_names_of_runs():
    run = places.run_id(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "0a1b2c")
    assert run == "20260102T030405Z-0a1b2c"
    assert places.is_run_id(run)
    assert places.created_of(run) == "2026-01-02T03:04:05Z"
    assert places.backup(run, 3, "/etc/default/grub") == f"/var/lib/pvectl/runs/{run}/backup/3-grub"


@pytest.mark.parametrize("text", ["", "../x", "20260102T030405Z-0a1b2", "20260102T030405Z-0A1B2C", "pve1"])
def test_names_that_are_no_runs(text):
    assert not places.is_run_id(text)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("mapping=a,pcie=1", "pcie=1,mapping=a", True),
        ("mapping=a,pcie=1", "mapping=a", False),
        ("q35", "q35", True),
        ("q35", "pc", False),
        (None, None, True),
        (None, "", False),
        ("q35,viommu=intel", "q35,viommu=intel", True),
        ("a=1,a=2", "a=2", False),
        ("host,flags=+x", "flags=+x,host", True),
    ],
)
def test_options_compare_as_proxmox_reads_them(one, other, same):
    assert same_text(one, other) is same


def test_tags_are_a_set_in_lower_case():
    assert same_option("tags", "GPU;llm", "gpu,llm")
    assert not same_option("tags", "gpu", "llm")
    assert not same_option("tags", None, "llm")


def test_entries_keep_their_order():
    assert same_entries(("a=1,b=2", "a=3"), ("b=2,a=1", "a=3"))
    assert not same_entries(("a=1", "a=3"), ("a=3", "a=1"))
    assert not same_entries(("a=1",), None)
    assert not same_entries(("a=1",), ("a=1", "a=1"))
    assert same_entries(None, None)


def test_identities_survive_the_file():
    devices = {"0000:41:00.0": Identity(ids="10de:2bb5", subsystem_ids=None, dsn="ab", path="\\_SB_.S0/01.1")}
    text = render_identities(devices, "2026-01-02T03:04:05Z")
    assert parse_identities(text.encode(), "identity.json") == devices


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", dumps(wrap("identity", {"devices": {"x": 1}}, created="2026-01-02T03:04:05Z")).encode()]
)
def test_a_damaged_identity_file_is_named(data):
    with pytest.raises(PvectlError, match=r"identity\.json"):
        parse_identities(data, "identity.json")


def test_identities_of_an_unknown_device_are_a_note(bench, monkeypatch):
    model = bench.host.model()
    lost = tuple(f.model_copy(update={"root_acpi_path": None}) for f in model.pci)
    plan = bench.plan()
    read = bench.host.model
    monkeypatch.setattr(bench.host, "model", lambda: read().model_copy(update={"pci": lost}))
    monkeypatch.setattr("provision.apply.course.confirm_groups", lambda *_: None)
    outcome = bench.apply(plan, reboot=True)
    assert len(outcome.notes) == 2
    assert "0000:41:00.0 is not recorded" in outcome.notes[0]


def test_known_identities_are_not_written_again(bench):
    bench.apply(bench.plan(), reboot=True)
    identity = "/var/lib/pvectl/identity.json"
    again = bench.plan()
    udev = tuple(c for c in again.changes if c.id == "binding.udev")
    gpus = tuple(row.model_copy(update={"group_now": row.group_after}) for row in again.gpus)
    again = again.model_copy(update={"changes": udev, "gpus": gpus, "stops_guests": (), "starts_guests": ()})
    count = bench.host.calls.count(f"write {identity}")
    assert bench.apply(again).status == "done"
    assert bench.host.calls.count(f"write {identity}") == count == 1


def test_a_plan_file_is_read(bench):
    plan = bench.plan()
    data = dumps(wrap("plan", plan.model_dump(mode="json"))).encode()
    assert parse_plan(data, "plan.json") == plan


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"{", "it is no JSON"),
        (b"{}", "it is not a pvectl plan"),
        (json.dumps(wrap("plan", {"host": 1}, created="2026-01-02T03:04:05Z")).encode(), "host: "),
        (
            json.dumps(wrap("plan", {}, created="2026-01-02T03:04:05Z")).replace("plan/1", "plan/9").encode(),
            "newer than pvectl",
        ),
    ],
)
def test_a_wrong_plan_file_is_named(data, named):
    with pytest.raises(PvectlError, match=r"plan\.json") as caught:
        parse_plan(data, "plan.json")
    assert named in caught.value.message


class Denied:
    target = "root@pve1"

    def read(self, wants, *, deadline=60.0):
        item = Item(subject="host", key=wants[0].pattern, kind=wants[0].kind, state="denied")
        return [Read(item=item)]


def test_denied_is_not_absent():
    with pytest.raises(PvectlError, match="permission denied"):
        read_file(Denied(), "/etc/shadow")
    with pytest.raises(PvectlError, match="permission denied"):
        read_matches(Denied(), ("/etc/*",))


def test_a_folder_that_cannot_be_listed_is_not_empty():
    with pytest.raises(PvectlError, match="permission denied"):
        folder_entries(Denied(), "/root")
