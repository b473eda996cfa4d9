"""Markdown for a forum and SARIF for code scanning: of one sick host and one pasted file, word for word."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from sarif_shape import problems

from provision import __version__
from provision.cli.app import run
from provision.doctor.engine import diagnose
from provision.doctor.finding import Crash, Evidence, Finding, Report, Undecidable
from provision.doctor.markdown import is_command, report_markdown
from provision.doctor.order import TITLES, groups
from provision.doctor.rules import RULES
from provision.doctor.sarif import report_sarif
from provision.doctor.text import report_text
from provision.readers.recognize import documents

DATA = Path(__file__).parents[1] / "data"
SHOWN = ("iommu-off", "cmdline-not-applied", "mapping-stale", "cmdline-noop")
"""Three that fire and one that does not: what the others say changes with every new rule."""
GOLDEN = DATA / "doctor-output"
PASTED = DATA / "pastes" / "kernel-log.txt"


@pytest.fixture
def sick_host(build, examples) -> Report:
    model = build(
        cmdline=f"{examples.cmdline} amd_iommu=on",
        grub=examples.grub,
        functions=examples.regrouped("0000:41:00.0", 27),
    ).model()
    return diagnose(model, rules=[rule for rule in RULES if rule.id in SHOWN])


@pytest.fixture
def pasted(healthy) -> Report:
    """Of the rules over texts alone: what a paste lacks for the others changes with every new rule."""
    found, _ = documents("kernel-log.txt", PASTED.read_text("utf-8"))
    return diagnose(healthy, found, rules=(), bundle_rules=())


def finding(rule: str, severity: str = "warning", **more) -> Finding:
    values = {
        "rule": rule,
        "severity": severity,
        "subjects": ("host",),
        "summary": f"{rule} is wrong",
        "evidence": (Evidence(source="/proc/cmdline", excerpt="quiet", line=1),),
        "consequence": "it fails",
        "remedy": ("qm set 100 --cpu host",),
        "source": "Linux",
        "plan_fixes": False,
    }
    return Finding(**{**values, **more})


@pytest.mark.parametrize("name", ["sick_host", "pasted"])
def test_text_and_markdown_word_for_word(request, name):
    report = request.getfixturevalue(name)
    assert report_text(report, name) == (GOLDEN / f"{name}.txt").read_text("utf-8")
    assert report_markdown(report, name, next_command="pvectl plan") == (GOLDEN / f"{name}.md").read_text("utf-8")


@pytest.mark.parametrize("name", ["sick_host", "pasted"])
def test_sarif_word_for_word_and_valid(request, name):
    log = report_sarif(request.getfixturevalue(name), name)
    assert list(problems(log)) == []
    shown = json.dumps(log, indent=1, ensure_ascii=False).replace(f'"{__version__}"', '"VERSION"') + "\n"
    assert shown == (GOLDEN / f"{name}.sarif.json").read_text("utf-8")


def test_a_pasted_file_is_named_with_its_line(pasted):
    log = report_sarif(pasted, "paste")
    places = [result["locations"][0]["physicalLocation"] for result in log["runs"][0]["results"]]
    assert places
    assert all(place["artifactLocation"] == {"uri": "kernel-log.txt"} for place in places)
    lines = PASTED.read_text("utf-8").splitlines()
    for place in places:
        region = place["region"]
        assert 1 <= region["startLine"] <= len(lines)


def test_every_rule_makes_valid_sarif_and_markdown(sick):
    for name, make in sick.items():
        report = diagnose(make())
        assert list(problems(report_sarif(report, name))) == [], name
        text = report_markdown(report, name)
        assert f"`{name}`" in text
        assert text.count("\n```") % 2 == 0
        assert "\n|" not in text


def test_a_fingerprint_is_the_same_for_the_same_things_only():
    def prints(*findings):
        log = report_sarif(Report(findings=findings, undecidable=(), silent=()), "h")
        return [one["partialFingerprints"]["pvectlFinding/v1"] for one in log["runs"][0]["results"]]

    first = finding("a", subjects=("0000:41:00.0", "0000:81:00.0"))
    assert prints(first) == prints(finding("a", subjects=("0000:81:00.0", "0000:41:00.0"), summary="other words"))
    assert prints(first) != prints(finding("a", subjects=("0000:41:00.0",)))
    assert prints(first) != prints(finding("b", subjects=first.subjects))


@pytest.mark.parametrize(
    ("source", "uri", "base"),
    [
        ("/etc/default/grub", "etc/default/grub", "ROOT"),
        ("-", "stdin", None),
        ("my logs/dmesg 1.txt", "my%20logs/dmesg%201.txt", None),
        ("a.tar.gz:host/dmesg", "a.tar.gz%3Ahost/dmesg", None),
        ("größe.txt", "gr%C3%B6%C3%9Fe.txt", None),
    ],
)
def test_names_of_files_are_references(source, uri, base):
    report = Report(
        findings=(finding("a", evidence=(Evidence(source=source, excerpt="x"),)),), undecidable=(), silent=()
    )
    log = report_sarif(report, "h")
    assert list(problems(log)) == []
    artifact = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == ({"uri": uri} if base is None else {"uri": uri, "uriBaseId": base})


def test_a_crash_and_a_missing_fact_are_notifications():
    report = Report(
        findings=(finding("a", evidence=()),),
        undecidable=(Undecidable(rule="b", missing="x", supply="y"),),
        silent=(),
        crashed=(Crash(rule="c", error="KeyError: 1", trace=()),),
    )
    log = report_sarif(report, "h")
    assert list(problems(log)) == []
    invocation = log["runs"][0]["invocations"][0]
    assert invocation["executionSuccessful"] is False
    assert [one["level"] for one in invocation["toolExecutionNotifications"]] == ["error", "note"]


def test_what_is_done_first_stands_first():
    report = Report(
        findings=(
            finding("by-hand", "error"),
            finding("known", "info"),
            finding("in-firmware", "error", remedy=("firmware setup: Above 4G Decoding on",)),
            finding("restart", remedy=("update-grub", "reboot the host")),
            finding("planned", "warning", plan_fixes=True),
            finding("planned-error", "error", plan_fixes=True),
            finding("cause", "warning"),
        ),
        undecidable=(),
        silent=(),
        absorbed=(finding("consequence", consequence_of=("cause",)),),
    )
    order = [(group.stage, [one.rule for one in group.findings]) for group in groups(report)]
    assert order == [
        ("cause", ["cause"]),
        ("plan", ["planned-error", "planned"]),
        ("hand", ["by-hand"]),
        ("machine", ["in-firmware", "restart"]),
        ("know", ["known"]),
    ]
    for text in (report_text(report, "h"), report_markdown(report, "h")):
        places = [text.index(title) for title in TITLES.values()]
        assert places == sorted(places)


def test_markdown_keeps_words_from_being_markup():
    odd = finding(
        "a",
        summary="x_y_z *b* <script> [l](u) | # `c`",
        evidence=(Evidence(source="f", excerpt="``` rm -rf ```\n# head"),),
        remedy=("see the page_of_it", "qm set 100 --cpu host", "lspci -k   # look"),
    )
    text = report_markdown(Report(findings=(odd,), undecidable=(), silent=()), "my_host")
    assert r"x\_y\_z \*b\* \<script\> \[l\](u) \| \# \`c\`" in text
    assert "\n````\nf: ``` rm -rf ``` # head\n````\n" in text
    assert "\n```\nqm set 100 --cpu host\nlspci -k   # look\n```\n" in text
    assert "\n- see the page\\_of\\_it\n" in text
    assert "\n\n\n" not in text


def test_remedies_are_told_from_commands():
    assert is_command("pvectl plan   # then pvectl apply")
    assert is_command("reboot   # the guest")
    assert not is_command("reboot the host")
    assert not is_command("seat the card again")


@pytest.mark.parametrize("form", ["text", "json", "markdown", "sarif"])
def test_every_form_keeps_the_exit_codes(form, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    paste = str(PASTED)
    assert run(["doctor", "--from", paste, "--fail-on", "never", "--output", form]) == 0
    out = capsys.readouterr().out
    assert run(["doctor", "--from", paste, "--fail-on", "info", "--output", form]) == 3
    if form in ("json", "sarif"):
        json.loads(out)
    assert re.search(r"flr-waiting", out)
