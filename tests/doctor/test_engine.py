"""Outcomes are kept apart, causes absorb consequences, and a crash in a rule is shown as ours."""

from __future__ import annotations

import sys

from provision.doctor.causes import absorb, explained_by
from provision.doctor.engine import diagnose
from provision.doctor.finding import Evidence, Finding, Report, Undecidable
from provision.doctor.rule import DocumentRule, Rule
from provision.doctor.text import report_text
from provision.readers.document import Document


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


def test_a_chain_of_causes_ends_at_its_root(healthy):
    root, middle = finding("root", subjects=("gpu",)), finding("middle", subjects=("gpu", "vm/1"), causes=("root",))
    leaf = finding("leaf", "warning", subjects=("vm/1",), causes=("middle",))
    report = diagnose(healthy, rules=[rule(leaf), rule(middle), rule(root)])
    assert rules_of(report.findings) == ["root"]
    assert rules_of(explained_by(report.findings[0], report.absorbed)) == ["leaf", "middle"]


def test_findings_that_explain_each_other_do_not_both_vanish(healthy):
    one, other = finding("one", causes=("other",)), finding("other", causes=("one",))
    report = diagnose(healthy, rules=[rule(one), rule(other)])
    assert rules_of(report.findings) == ["one"]
    assert rules_of(report.absorbed) == ["other"]


def test_one_cause_on_many_subjects_is_one_finding(healthy):
    each = [
        finding("a", subjects=(bdf,)).model_copy(update={"cause": "no power", "consequence": "c"}) for bdf in ("x", "y")
    ]
    alone = finding("a", subjects=("z",)).model_copy(update={"cause": "no link"})
    report = diagnose(healthy, rules=[rule(*each, alone)])
    assert [(f.summary, f.subjects) for f in report.findings] == [("no power: x, y", ("x", "y")), ("s", ("z",))]
    assert report.findings[0].consequence == "c"
    assert len(report.findings[0].evidence) == 1


def test_documents_are_read_by_the_rules_for_their_kind(healthy):
    document = Document(name="a.log", kind="nccl-log", origin="guest", first_line=1, reading=None)
    seen = []

    def check(given, model):
        seen.append((given.name, model is healthy))
        yield finding("d")

    rules = [
        DocumentRule("d", "t", frozenset({"nccl-log"}), check),
        DocumentRule("e", "t", frozenset({"topo-p2p"}), check),
    ]
    report = diagnose(healthy, [document, document], rules=(), document_rules=rules)
    assert seen == [("a.log", True)] * 2
    assert rules_of(report.findings) == ["d", "d"]
    assert report.notes == ()


def test_four_times_the_findings_is_about_four_times_the_work():
    """A file may repeat one fault thousands of times, each with a cause that it names."""

    def steps(count: int) -> int:
        calls = 0

        def step(_frame: object, event: str, _argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        causes = [finding("cause", subjects=(f"s{at}",)) for at in range(count)]
        followers = [finding("more", subjects=(f"s{at}",), causes=("cause",)) for at in range(count)]
        sys.setprofile(step)
        kept, absorbed = absorb([*causes, *followers])
        sys.setprofile(None)
        assert (len(kept), len(absorbed)) == (count, count)
        return calls

    assert steps(400) < steps(100) * 4 * 1.3


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


def test_digits_that_are_no_number_are_no_crash(build, examples):
    """A superscript two is a digit to Python and no number."""
    two = "\N{SUPERSCRIPT TWO}"
    text = examples.vm.replace("memory: 65536", f"memory: 3{two}768").replace("host\n", f"host,phys-bits=4{two}\n")
    clique = examples.clique.replace("clique=0", f"clique=1{two}")
    more = f"affinity: 0-3\nvcpus: {two}\ncores: {two}\nsockets: {two}\n"
    report = diagnose(build(vms={100: clique + text + more}).model())
    assert report.crashed == ()
