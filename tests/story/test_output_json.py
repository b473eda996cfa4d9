"""``--output json``: every verb answers with one envelope on stdout and nothing else."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from provision.cli.schema import SHOWN
from provision.cli.verbs import VERBS
from provision.envelope import KINDS

pytestmark = pytest.mark.story

STORY = (
    (("capture", "-o", "before.tar.gz"), "summary", 0),
    (("topo",), "model", 0),
    (("doctor",), "finding", 3),
    (("doctor", "--from", "before.tar.gz"), "finding", 3),
    (("mapping", "list"), "mapping", 0),
    (("mapping", "check"), "mapping", 3),
    (("auth",), "auth", 0),
    (("explain", "mapping-stale"), "explanation", 0),
    (("paths",), "paths", 0),
    (("compare", "before.tar.gz", "before.tar.gz"), "moves", 0),
    (("plan", "-o", "plan.json", "--detailed-exitcode"), "plan", 2),
    (("apply", "plan.json"), "error", 4),
    (("apply", "plan.json", "--yes"), "run", 6),
    (("apply", "plan.json", "--yes"), "error", 4),
    (("apply", "--resume", "--reboot"), "run", 0),
    (("confirm",), "run", 0),
    (("apply", "--yes"), "run", 0),
    (("verify",), "report", 0),
    (("p2p", "100"), "p2p", 0),
    (("rollback", "--yes"), "error", 4),
    (("rollback", "--yes", "--stop-guests", "--reboot"), "run", 0),
    (("verify",), "report", 7),
    (("rollback", "--all", "--yes"), "run", 0),
    (("plan", "nosuch"), "error", 64),
    (("doctor", "--from", "nosuch.tar.gz"), "error", 1),
    (("doctor", "--frob"), "error", 64),
)
IN_A_PROCESS = frozenset({"verify"})
"""Verify runs tests of its own, which must not write to stdout either."""
WITHOUT_SCHEMA = frozenset(KINDS) - set(SHOWN)


def test_every_verb_answers_with_one_envelope(on_lab: Callable[..., Any]) -> None:
    host = on_lab()
    schemas: dict[str, Any] = {}
    for words, kind, code in STORY:
        run = host.pvectl if words[0] in IN_A_PROCESS else host.call
        answer = run(*words, "--output", "json").must(code)
        document = json.loads(answer.out)
        assert list(document) == ["schema", "version", "created", "data"]
        assert document["schema"] == f"pvectl.{kind}/{KINDS[kind]}", words
        if kind not in WITHOUT_SCHEMA:
            if kind not in schemas:
                schemas[kind] = json.loads(host.call("schema", kind).must(0).out)
            jsonschema.validate(document, schemas[kind])
        if kind in ("error", "run"):
            assert document["data"]["exit_code"] == code


def test_no_verb_with_json_is_left_out() -> None:
    told = {words[0] for words, _kind, _code in STORY}
    able = {
        verb.name for verb in VERBS if "OutputFormat" in Path(importlib.import_module(verb.module).__file__).read_text()
    }
    assert able <= told


def test_the_plan_on_stdout_is_the_plan_in_the_file(on_lab: Callable[..., Any]) -> None:
    host = on_lab()
    printed = json.loads(host.call("plan", "-o", "plan.json", "--output", "json").must(0).out)
    saved = json.loads((host.home / "plan.json").read_text())
    assert printed["data"] == saved["data"]
    assert printed["schema"] == saved["schema"] == "pvectl.plan/1"
