"""Outcomes are kept apart, causes absorb consequences, and a crash in a rule is shown as ours."""

from __future__ import annotations

from provision.doctor.engine import diagnose
from provision.doctor.finding import Evidence, Finding, Report, Undecidable
from provision.doctor.rule import Rule
from provision.doctor.text import report_text


def finding(rule, severity="error", subjects=("host",), causes=()):
    return Finding(
        rule=rule,
        severity=severity,
        subjects=subjects,
        summary="s",
        evidence=(Evidence(source="/x", excerpt="y"),),
        consequence="c",
        remedy=("r",),
        source="t",
        plan_fixes=False,
        consequence_of=causes,
    )


def rule(*outcome):
    return Rule(outcome[0].rule if outcome else "quiet", "title", lambda _: iter(outcome))


def rules_of(findings):
    return [f.rule for f in findings]


def test_three_outcomes(healthy):
    unknown = Undecidable(rule="b", missing="m", supply="s")
    report = diagnose(healthy, rules=[rule(finding("a")), rule(unknown, unknown), rule()])
    assert rules_of(report.findings) == ["a"]
    assert report.undecidable == (unknown,)
    assert report.silent == ("quiet",)


def test_the_most_severe_comes_first_and_order_is_kept(healthy):
    report = diagnose(
        healthy, rules=[rule(finding("a", "info")), rule(finding("b")), rule(finding("c", "warning"), finding("c"))]
    )
    assert [(f.rule, f.severity) for f in report.findings] == [
        ("b", "error"),
        ("c", "error"),
        ("c", "warning"),
        ("a", "info"),
    ]


def test_a_cause_absorbs_its_consequence(healthy):
    cause, effect = finding("cause"), finding("effect", subjects=("mapping/x",), causes=("cause",))
    report = diagnose(healthy, rules=[rule(effect), rule(cause)])
    assert rules_of(report.findings) == ["cause"]
    assert rules_of(report.absorbed) == ["effect"]
    assert report.silent == ()


def test_a_cause_on_another_subject_explains_nothing(healthy):
    cause = finding("cause", subjects=("mapping/y",))
    effect = finding("effect", subjects=("mapping/x", "vm/1"), causes=("cause",))
    assert diagnose(healthy, rules=[rule(cause), rule(effect)]).absorbed == ()
    shared = finding("cause", subjects=("vm/1",))
    assert rules_of(diagnose(healthy, rules=[rule(shared), rule(effect)]).absorbed) == ["effect"]


def test_a_host_without_a_gpu_is_told_so(healthy, build):
    assert diagnose(healthy).notes == ()
    bare = tuple(f for f in healthy.pci if not f.is_nvidia_gpu)
    report = diagnose(build(functions=bare, mappings="", vms={}).model())
    assert report.notes == (
        "no NVIDIA GPU was found (4 PCI functions were read): rules about GPUs have nothing to look at",
    )
    assert "\nnote: no NVIDIA GPU was found" in report_text(report, "pve1")
    assert report.model_dump(mode="json")["notes"] == list(report.notes)
    assert "no PCI function was read" in diagnose(build(functions=(), mappings="", vms={}).model()).notes[0]


def test_a_lesser_cause_must_not_hide_an_error(healthy):
    cause, effect = finding("cause", "warning"), finding("effect", causes=("cause",))
    assert diagnose(healthy, rules=[rule(cause), rule(effect)]).absorbed == ()


def test_a_crash_is_shown_and_the_others_still_speak(healthy):
    def broken(_):
        yield finding("broken")
        raise ZeroDivisionError("by accident")

    report = diagnose(healthy, rules=[Rule("broken", "t", broken), rule(finding("a"))])
    assert rules_of(report.findings) == ["a"]
    (crash,) = report.crashed
    assert (crash.rule, crash.error) == ("broken", "ZeroDivisionError: by accident")
    assert any("test_engine.py" in line for line in crash.trace)


def test_a_report_survives_json(sick):
    report = diagnose(sick["mapping-stale"]())
    assert Report.model_validate_json(report.model_dump_json()) == report


def test_the_same_host_gives_the_same_report(sick):
    for make in sick.values():
        assert diagnose(make()) == diagnose(make())


def test_no_iommu_explains_mappings_that_name_a_group(build, examples):
    report = diagnose(build(units=(), functions=examples.without_group()).model())
    assert rules_of(report.findings) == ["iommu-off"]
    assert rules_of(report.absorbed) == ["mapping-stale", "mapping-stale"]
