"""gpu-quarantined."""

from __future__ import annotations

from provision.doctor.rules.gpu_quarantined import RULE
from provision.evidence import Unknown
from provision.host.model import FileState
from provision.host.quarantine import QUARANTINE_FILE, Quarantined, parse_quarantine, quarantine_text

ENTRY = Quarantined(
    bdf="0000:41:00.0", vmid=100, since="2026-01-02T03:04:05Z", fault="reset", reason="cycle 2: stuck", boot_id="old"
)


def recorded(build, *entries):
    return build(files={QUARANTINE_FILE: quarantine_text(entries)}).model()


def test_fires_for_every_gpu_that_is_recorded(build):
    other = ENTRY.model_copy(update={"bdf": "0000:61:00.0", "sure": False})
    first, second = RULE.check(recorded(build, ENTRY, other))
    assert first.subjects == ("0000:41:00.0", "vm/100")
    assert "cycle 2: stuck" in first.evidence[0].excerpt
    assert first.remedy[-1].startswith("pvectl verify --release 0000:41:00.0")
    assert "or another GPU of that VM" in second.summary


def test_says_whether_the_host_has_booted_since(build):
    model = recorded(build, ENTRY)
    (finding,) = RULE.check(model)
    assert "has booted since" in finding.evidence[0].excerpt
    same = ENTRY.model_copy(update={"boot_id": model.kernel.boot_id})
    (finding,) = RULE.check(recorded(build, same))
    assert "the host runs on" in finding.evidence[0].excerpt


def test_is_silent_without_a_record(healthy):
    assert list(RULE.check(healthy)) == []


def test_cannot_decide_where_the_record_is_damaged_or_was_not_read(build, healthy):
    (unknown,) = RULE.check(build(files={QUARANTINE_FILE: "{"}).model())
    assert "not as pvectl writes it" in unknown.missing
    unread = Unknown(unknown="denied", supply="be root")
    state = FileState(path=QUARANTINE_FILE, content=unread, sha256=unread)
    (unknown,) = RULE.check(healthy.model_copy(update={"files": {QUARANTINE_FILE: state}}))
    assert unknown.supply == "be root"
    (unknown,) = RULE.check(healthy.model_copy(update={"files": {}}))
    assert "not captured" in unknown.missing


def test_the_record_reads_back(build):
    assert parse_quarantine(quarantine_text((ENTRY,)), "x") == (ENTRY,)
