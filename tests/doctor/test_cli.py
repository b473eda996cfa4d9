"""The verbs doctor, explain, init and schema: exit codes, output, what goes to stdout."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime

import pytest
from jsonschema import Draft202012Validator

from provision.apply.identity import render_identities
from provision.apply.journal import line_of
from provision.apply.records import Done
from provision.capture.model import Capture, Manifest
from provision.capture.store import save
from provision.cli.app import run
from provision.doctor import engine
from provision.doctor.finding import Report
from provision.envelope import KINDS
from provision.inventory.loader import load
from provision.pci.model import Identity


@pytest.fixture
def host(monkeypatch, tmp_path):
    """Return a function that puts a host model in place of what would be read."""

    def put(model):
        capture = Capture(Manifest(target="root@pve1", hostname="pve1", created="2025-01-01T00:00:00Z"), (), {})
        (tmp_path / "x.tar.gz").unlink(missing_ok=True)
        save(capture, tmp_path / "x.tar.gz")
        for verb in ("doctor", "init"):
            monkeypatch.setattr(f"provision.cli.{verb}.load_or_read", lambda site, from_: capture)
        monkeypatch.setattr("provision.host.assemble.assemble", lambda capture: model)

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PVECTL_INVENTORY", raising=False)
    return put


@pytest.mark.parametrize(
    ("rule", "fail_on", "code"),
    [
        ("mapping-stale", None, 3),
        ("mapping-stale", "never", 0),
        ("cmdline-not-applied", None, 0),
        ("cmdline-not-applied", "warning", 3),
        ("cmdline-noop", "warning", 0),
        ("cmdline-noop", "info", 3),
    ],
)
def test_the_exit_code_follows_fail_on(host, sick, capsys, rule, fail_on, code):
    host(sick[rule]())
    assert run(["doctor", "--from", "x.tar.gz", *(["--fail-on", fail_on] if fail_on else [])]) == code
    assert rule in capsys.readouterr().out


def test_text_ends_with_the_next_command(host, sick, healthy, capsys):
    for model, words in (
        (sick["mapping-stale"](), "Next: pvectl plan --from x.tar.gz\n"),
        (sick["group-foreign-device"](), "Next: pvectl explain group-foreign-device\n"),
        (sick["link-speed-low"](), "Next: pvectl plan --from x.tar.gz\n"),
        (healthy, "Next: pvectl plan --from x.tar.gz\n"),
        (
            healthy.model_copy(update={"files": {}}),
            "Next: supply the facts named above, then the same command again\n",
        ),
    ):
        host(model)
        run(["doctor", "--from", "x.tar.gz"])
        assert capsys.readouterr().out.endswith(words)


def test_a_live_target_is_named(host, healthy, capsys):
    host(healthy)
    assert run(["doctor", "root@pve1"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("root@pve1: nothing found\n")
    assert "reading root@pve1" in err
    assert out.endswith("Next: pvectl plan root@pve1\n")


def test_json_is_the_report_in_its_envelope(host, sick, capsys):
    model = sick["mapping-stale"]()
    host(model)
    assert run(["doctor", "--from", "x.tar.gz", "--output", "json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "pvectl.finding/1"
    assert Report.model_validate_json(json.dumps(document["data"])) == engine.diagnose(model)


def test_a_crash_of_a_rule_is_exit_code_1(host, sick, monkeypatch, capsys):
    host(sick["mapping-stale"]())

    def broken(model):
        raise ZeroDivisionError

    broken_rule = engine.Rule("broken", "t", broken)
    defaults = {**engine.diagnose.__kwdefaults__, "rules": (*engine.RULES, broken_rule)}
    monkeypatch.setattr(engine.diagnose, "__kwdefaults__", defaults)
    assert run(["doctor", "--from", "x.tar.gz"]) == 1
    assert "bug in pvectl: rule broken failed" in capsys.readouterr().out


def test_explain(capsys, monkeypatch):
    assert run(["explain", "--list"]) == 0
    assert "mapping-stale" in capsys.readouterr().out
    assert run(["explain", "pci", "device", "'0000:41:00.0'", "not", "found"]) == 0
    assert "# mapping-stale" in capsys.readouterr().out
    assert run(["explain", "nothing known"]) == 8
    monkeypatch.setattr("sys.stdin", io.StringIO("cannot prepare PCI pass-through, IOMMU not present"))
    assert run(["explain", "-"]) == 0
    assert "# iommu-off" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    assert run(["explain"]) == 64


def test_init_writes_an_inventory_and_never_over_another(host, healthy, capsys, tmp_path):
    host(healthy)
    assert run(["init", "root@pve1"]) == 0
    text = capsys.readouterr().out
    assert run(["init", "root@pve1", "-o", "a.yaml"]) == 0
    assert (tmp_path / "a.yaml").read_text() == text
    assert load(tmp_path / "a.yaml").hosts["pve1"].vms.keys() == {100}
    (tmp_path / "a.yaml").write_text("mine")
    assert run(["init", "root@pve1", "-o", "a.yaml"]) == 64
    assert (tmp_path / "a.yaml").read_text() == "mine"
    assert run(["init", "--from", "x.tar.gz", "-o", "a.yaml", "--force"]) == 0
    assert load(tmp_path / "a.yaml").hosts["pve1"].address == "root@pve1"
    assert run(["init"]) == run(["init", "root@pve1", "--from", "x"]) == 64
    assert run(["init", "root@pve1", "-o", "none/a.yaml"]) == 64


def test_init_keeps_how_the_inventory_reaches_the_host(host, healthy, capsys, tmp_path):
    host(healthy)
    (tmp_path / "pvectl.yaml").write_text(
        "hosts:\n  pve1: {address: root@127.0.0.1:2222, ssh: {identity_file: /k, connect_timeout: 3}}\n"
    )
    assert run(["init", "pve1", "-o", "b.yaml"]) == 0
    written = load(tmp_path / "b.yaml").hosts["pve1"]
    assert written.address == "root@127.0.0.1:2222"
    assert (written.ssh.identity_file, written.ssh.connect_timeout) == ("/k", 3)


def test_schema(capsys):
    assert run(["schema"]) == 0
    kinds = capsys.readouterr().out.split()
    assert {"inventory", "plan", "model", "report"} <= set(kinds) <= set(KINDS)
    for kind in kinds:
        assert run(["schema", kind]) == 0
        schema = json.loads(capsys.readouterr().out)
        Draft202012Validator.check_schema(schema)
        assert schema["$id"] == f"pvectl.{kind}/1"
    assert run(["schema", "nothing"]) == 64


def test_a_report_fits_its_schema(host, sick, capsys):
    run(["schema", "finding"])
    schema = json.loads(capsys.readouterr().out)
    host(sick["iommu-off"]())
    run(["doctor", "--from", "x.tar.gz", "--output", "json"])
    Draft202012Validator(schema).validate(json.loads(capsys.readouterr().out))


def test_files_fit_their_schema(capsys, tmp_path):
    identity = Identity(ids="10de:2bb5", subsystem_ids=None, dsn=None, path="\\_SB_.S0D2/00.0")
    manifest = Manifest(target="root@pve1", created="2025-01-01T00:00:00Z")
    save(Capture(manifest, (), {}), tmp_path / "capture")
    for kind, text in (
        ("identity", render_identities({"0000:41:00.0": identity}, "2025-01-01T00:00:00Z")),
        ("capture", (tmp_path / "capture" / "manifest.json").read_text()),
        ("receipt", line_of(Done(boot_id="b"), datetime(2025, 1, 1, tzinfo=UTC)).decode()),
    ):
        run(["schema", kind])
        Draft202012Validator(json.loads(capsys.readouterr().out)).validate(json.loads(text))
