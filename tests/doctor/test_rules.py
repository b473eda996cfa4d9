"""Each rule has a module, a page and a test of the same name; it fires, is silent and cannot decide."""

from __future__ import annotations

import ast
import re
from importlib.resources import files
from pathlib import Path

import pytest
from doctor_examples import EXAMPLES

from provision.doctor.engine import diagnose
from provision.doctor.rules import RULES

HEADINGS = ["What it means", "How we know", "What to do", "When this is wrong", "Sources"]
FOLDER = Path(str(files("provision.doctor.rules").joinpath("")))
BY_ID = {rule.id: rule for rule in RULES}
ALSO = {example.rule: example.also for example in EXAMPLES}


def test_ids_are_unique_and_every_file_belongs_to_a_rule():
    ids = [rule.id for rule in RULES]
    assert len(ids) == len(set(ids)) >= 8
    modules = {path.stem.replace("_", "-") for path in FOLDER.glob("*.py") if path.stem != "__init__"}
    assert modules == {path.stem for path in FOLDER.glob("*.md")} == set(ids)


@pytest.mark.parametrize("rule", BY_ID)
def test_id_is_a_slug_and_the_name_of_the_module(rule):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule)
    assert BY_ID[rule].check.__module__.rsplit(".", 1)[1] == rule.replace("-", "_")
    assert 10 < len(BY_ID[rule].title) <= 80
    assert not BY_ID[rule].title.endswith(".")


@pytest.mark.parametrize("rule", BY_ID)
def test_the_page_has_its_headings_and_something_below_each(rule):
    text = (FOLDER / f"{rule}.md").read_text("utf-8")
    assert text.startswith(f"# {rule}: ")
    parts = re.split(r"(?m)^## (.+)$", text)
    assert parts[1::2] == HEADINGS
    assert all(len(body.strip()) > 12 for body in parts[2::2])


@pytest.mark.parametrize("rule", BY_ID)
def test_the_test_shows_all_three_outcomes(rule):
    path = Path(__file__).parent / "rules" / f"test_{rule.replace('-', '_')}.py"
    if rule in ALSO and not path.exists():
        return  # a row of doctor_examples.py, which has all three
    names = {node.name for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.FunctionDef)}
    for outcome in ("test_fires", "test_is_silent", "test_cannot_decide"):
        assert any(name.startswith(outcome) for name in names), f"{path.name} has no {outcome}..."


@pytest.mark.parametrize("rule", BY_ID)
def test_it_fires_on_its_sick_host_and_on_no_other_by_accident(sick, healthy, rule):
    report = diagnose(sick[rule]())
    assert {finding.rule for finding in report.findings} == {rule} | ALSO.get(rule, frozenset())
    assert rule in diagnose(healthy).silent


@pytest.mark.parametrize("rule", BY_ID)
def test_a_finding_can_be_read_and_acted_on(sick, rule):
    for finding in diagnose(sick[rule]()).findings:
        assert finding.subjects
        assert finding.evidence
        assert all(e.source.startswith("/") and e.excerpt for e in finding.evidence)
        assert finding.consequence
        assert finding.remedy
        assert finding.source
        assert "\n" not in finding.summary


def test_the_healthy_host_is_healthy(healthy):
    report = diagnose(healthy)
    assert report.findings == report.undecidable == report.absorbed == report.crashed == ()
    assert set(report.silent) == set(BY_ID)
