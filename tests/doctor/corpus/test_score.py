"""How well the doctor reads the public files, and the arithmetic of the score."""

from __future__ import annotations

import pytest

from provision.doctor.finding import Evidence, Finding, Report, Undecidable

FLOOR = 1.0
"""Share of expectations that are met; raise it when rules land, never lower it."""


def finding(rule: str, severity: str = "error", subjects=("x",), summary: str = "s") -> Finding:
    return Finding(
        rule=rule,
        severity=severity,
        subjects=subjects,
        summary=summary,
        evidence=(Evidence(source="/x", excerpt="quoted"),),
        consequence="c",
        remedy=("r",),
        source="t",
        plan_fixes=False,
    )


def report(*findings: Finding, **more) -> Report:
    return Report(findings=findings, undecidable=(), silent=(), **more)


def test_an_expectation_is_met_by_rule_severity_words_and_subjects(score):
    wanted = {"ids": ["acs-override-active"], "severity": "warning", "words": ["Override"], "subjects": ["a", "b"]}
    one = finding("cmdline-risky", "warning", ("a",), "the override")
    other = finding("cmdline-risky", "warning", ("b",))
    assert score.is_met(wanted, report(one, other))
    assert not score.is_met(wanted, report(one))
    assert not score.is_met(wanted, report(finding("cmdline-risky", "info", ("a", "b"), "override")))
    assert not score.is_met(wanted, report(finding("cmdline-noop", "warning", ("a", "b"), "override")))
    assert score.is_met(
        {**wanted, "severity": "error", "words": ["quoted"]}, report(finding("acs-override", "error", ("a", "b")))
    )


def test_what_is_shown_below_its_cause_counts(score):
    below = finding("rminit", "info", ("a",))
    assert score.is_met({"ids": ["rminit"], "severity": "info"}, report(absorbed=(below,)))


def test_an_undecided_outcome_can_be_expected(score):
    asked = Undecidable(rule="mapping-stale", missing="pci.cfg: not given", supply="give it")
    wanted = {"ids": ["mapping-stale"], "severity": "info", "undecided": True, "words": ["pci.cfg"]}
    assert score.is_met(wanted, Report(findings=(), undecidable=(asked,), silent=()))
    assert not score.is_met(wanted, report(finding("mapping-stale", "info", summary="pci.cfg")))


@pytest.mark.parametrize(
    ("row", "findings", "count"),
    [
        ({"forbid": []}, [finding("a")], 1),
        ({"expect": [{"ids": ["a"], "severity": "error"}]}, [finding("a"), finding("b")], 1),
        ({"forbid": [{"severity": "error", "words": ["off"]}]}, [finding("a", "warning", summary="off")], 0),
        ({"forbid": [{"severity": "warning", "words": ["off"]}]}, [finding("a", "warning", summary="off")], 1),
        ({"forbid": [{"severity": "warning", "subjects": ["y"]}]}, [finding("a", "warning")], 0),
        (
            {"expect": [{"ids": ["a"], "severity": "error"}], "forbid": [{"severity": "error", "more_than": 1}]},
            [finding("a"), finding("a", subjects=("y",))],
            1,
        ),
    ],
)
def test_false_findings(score, row, findings, count):
    assert len(list(score._false(row, report(*findings)))) == count


def test_a_false_error_on_a_healthy_file_counts_twice(score, monkeypatch, tmp_path):
    monkeypatch.setattr(score, "examine", lambda root, *files: report(finding("a")))
    assert score.judge(tmp_path, {"file": "k/a", "verdict": "healthy"}).weight == 2
    wanted = {"ids": ["b"], "severity": "info", "says": "t"}
    verdict = score.judge(tmp_path, {"file": "k/a", "verdict": "findings", "expect": [wanted]})
    assert (verdict.right, len(verdict.missed), verdict.weight) == (0, 1, 1)
    assert "k    " in score.summary({"k": [verdict]})


@pytest.mark.corpus
@pytest.mark.counted
def test_the_public_files(score):
    root = score.corpus()
    assert root is not None, "PVECTL_CORPUS must name the folder with the public files"
    found = score.scores(root)
    print(f"\n{score.summary(found)}")
    verdicts = [verdict for some in found.values() for verdict in some]
    assert not [text for verdict in verdicts for text in verdict.false]
    assert score.share(found) >= FLOOR
