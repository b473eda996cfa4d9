"""Fingerprints, and records of what was shown for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provision.errors import PvectlError
from provision.evidence import Unknown
from provision.guest.facts import parse_probe
from provision.guest.fingerprint import GuestPart, HostPart, guest_changes, guest_part, host_changes
from provision.guest.record import (
    KEPT,
    P2pRecord,
    failure_of,
    parse_records,
    record_of,
    render_records,
    with_record,
)
from provision.guest.verdict import judge
from provision.guest.verdict_model import P2pReport

DATA = Path(__file__).resolve().parent.parent / "data" / "guest-h200x2"
IDS = "10de:2335"
HOST = HostPart(
    kernel="6.14.11-4-pve",
    qemu="10.0.2",
    options=("iommu=pt",),
    gpus=("10de:2335 1", "10de:2335 2"),
    cpu="host",
    machine="q35",
    cliques=("hostpci0=0", "hostpci1=0"),
)


def report(name: str = "p2p-quick", host: Any = HOST, **changes: Any) -> P2pReport:
    data = json.loads((DATA / f"{name}.json").read_text("utf-8"))
    found = judge(parse_probe(json.dumps(data), 100), host, created="2026-01-02T03:04:05Z")
    return found.model_copy(update={"injected": None, **changes})


def record(name: str = "p2p-quick", host: Any = HOST) -> P2pRecord:
    found = record_of(report(name, host))
    assert found is not None
    return found


def changed(**parts: Any) -> HostPart:
    return HOST.model_copy(update=parts)


# --- the fingerprint


def test_equal_parts_give_one_digest_and_no_address_is_in_it() -> None:
    first, second = report().fingerprint, report().fingerprint
    assert first.digest == second.digest
    assert len(first.digest) == 16
    assert "0000:00:0" not in first.model_dump_json()


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("kernel", "6.14.12-1-pve"),
        ("qemu", "10.1.0"),
        ("options", ()),
        ("gpus", ("10de:2335 1", "10de:2335 3")),
        ("cpu", "x86-64-v4"),
        ("machine", "pc-q35-10.0"),
        ("cliques", ()),
    ],
)
def test_every_part_of_the_host_counts(part: str, value: Any) -> None:
    new = changed(**{part: value})
    assert len(host_changes(HOST, new)) == 1
    assert report(host=new).fingerprint.digest != report().fingerprint.digest


def test_a_part_that_is_not_known_is_no_change_and_cliques_may_be_left_out() -> None:
    assert host_changes(HOST, changed(qemu=Unknown(unknown="not read"))) == ()
    assert host_changes(HOST, Unknown(unknown="not read")) == ()
    assert host_changes(HOST, changed(cliques=()), with_cliques=False) == ()
    assert host_changes(HOST, changed(kernel="7.0")) == ("kernel: 6.14.11-4-pve -> 7.0",)


def test_the_guest_s_part_names_driver_vbios_cards_and_module_options() -> None:
    part = report().fingerprint.guest
    assert (part.driver, part.module) == ("580.159.04", "open")
    assert part.gpus[0].startswith("2335 96.00.A5.00.1A GPU-")
    assert part.parameters == ("DmaRemapPeerMmio=1", "EnableResizableBar=0")
    new = part.model_copy(update={"driver": "595.58.03"})
    assert guest_changes(part, new) == ("driver: 580.159.04 -> 595.58.03",)


def test_cliques_are_told_by_card() -> None:
    data = json.loads((DATA / "p2p-quick.json").read_text("utf-8"))
    data["pci"][0]["clique"] = 3
    part = guest_part(parse_probe(json.dumps(data), 100))
    assert [one.endswith("=3") for one in part.cliques] == [True]


# --- the records


def test_records_read_back_and_hold_no_address() -> None:
    text = render_records({100: (record(),)}, "2026-01-02T03:04:05Z")
    assert parse_records(text, "p2p.json") == {100: (record(),)}
    assert "0000:00:0" not in text.replace("GPU 0 to 1", "")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"schema": "pvectl.p2p-record/1"}', '{"schema": "pvectl.p2p-record/1", "data": {"vms": 3}}'],
)
def test_a_damaged_file_is_an_error_with_a_way_out(text: str) -> None:
    with pytest.raises(PvectlError, match=r"p2p\.json"):
        parse_records(text, "p2p.json")


def test_a_newer_file_is_refused() -> None:
    with pytest.raises(PvectlError, match="newer"):
        parse_records('{"schema": "pvectl.p2p-record/9", "data": {"vms": {}}}', "p2p.json")


def test_a_fault_on_purpose_and_levels_alone_are_not_recorded() -> None:
    assert record_of(report(injected="hang")) is None
    assert record_of(report(level=None)) is None


def test_the_latest_is_first_and_takes_the_place_of_its_like() -> None:
    one, two = record(), record(host=changed(kernel="7.0"))
    records = with_record(with_record(with_record({}, 100, one), 100, two), 100, one)
    assert [each.digest for each in records[100]] == [one.digest, two.digest]
    assert with_record(records, 101, one)[100] == records[100]


def test_a_look_that_decides_nothing_takes_no_proof_back() -> None:
    weak = record().model_copy(update={"verdict": "GRANTED_UNPROVEN"})
    records = with_record({}, 100, record())
    assert with_record(records, 100, weak) == records
    failed = record("p2p-hang")
    assert with_record(records, 100, failed)[100] == (failed,)


def test_old_records_go() -> None:
    records: dict[int, tuple[P2pRecord, ...]] = {}
    for number in range(KEPT + 3):
        records = with_record(records, 100, record(host=changed(kernel=f"6.{number}")))
    assert len(records[100]) == KEPT


# --- what a failure means for the next plan


def test_a_failure_holds_for_the_same_parts_whatever_the_cliques_are() -> None:
    failure = failure_of((record("p2p-private-copy"),), changed(cliques=()), IDS)
    assert failure is not None
    assert (failure.verdict, failure.created) == ("WRONG_DATA", "2026-01-02T03:04:05Z")


def test_a_failure_is_of_one_model() -> None:
    assert failure_of((record("p2p-hang"),), HOST, "10de:2bb5") is None


@pytest.mark.parametrize("part", ["kernel", "qemu", "cpu", "machine"])
def test_another_host_is_a_new_chance(part: str) -> None:
    assert failure_of((record("p2p-hang"),), changed(**{part: "other"}), IDS) is None


def test_a_host_that_cannot_be_read_is_no_new_chance() -> None:
    assert failure_of((record("p2p-hang"),), Unknown(unknown="not read"), IDS) is not None


def test_another_driver_in_the_guest_is_a_new_chance_once_it_was_measured() -> None:
    failed, newer = record("p2p-hang"), record()
    guest: GuestPart = newer.fingerprint.guest.model_copy(update={"driver": "595.58.03"})
    print_ = newer.fingerprint.model_copy(update={"guest": guest})
    newer = newer.model_copy(update={"fingerprint": print_, "digest": print_.digest, "verdict": "NOT_GRANTED"})
    assert failure_of((failed,), HOST, IDS) is not None
    assert failure_of((newer, failed), HOST, IDS) is None
    assert failure_of((failed,), HOST, IDS, guest) is None


def test_a_later_proof_of_the_same_parts_counts() -> None:
    proven = record(host=changed(cliques=()))
    assert failure_of((proven, record("p2p-hang")), HOST, IDS) is None
