"""Rules of one shape, from a table: each fires, is silent on a host that is nearly so, and lacks a fact."""

from __future__ import annotations

import pytest
from doctor_examples import EXAMPLES

from provision.doctor.rules import RULES
from provision.evidence import Unknown
from provision.host.model import HostModel

CHECKS = {rule.id: rule.check for rule in RULES}
GONE = Unknown(unknown="taken away", supply="give it back")
BY_RULE = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.rule)


def without(value, path: str):
    """Return a copy of ``value`` in which the fact at ``path`` is unknown; keys of a dict may have dots."""
    if not path:
        return GONE
    if isinstance(value, dict):
        key = next(key for key in value if path == key or path.startswith(f"{key}."))
        return {**value, key: without(value[key], path[len(key) + 1 :])}
    head, _, rest = path.partition(".")
    if isinstance(value, tuple):
        return (*value[: int(head)], without(value[int(head)], rest), *value[int(head) + 1 :])
    return value.model_copy(update={head: without(getattr(value, head), rest)})


@BY_RULE
def test_it_fires(example):
    findings = list(CHECKS[example.rule](example.sick.model()))
    assert any(example.says in finding.summary for finding in findings), [f.summary for f in findings]
    assert {finding.severity for finding in findings} == {example.severity}


@BY_RULE
def test_it_is_silent_where_it_is_nearly_so(example):
    assert list(CHECKS[example.rule](example.near.model())) == []


@BY_RULE
def test_it_cannot_decide_without_a_fact(example):
    if example.without is None:
        return
    poorer = without(example.sick.model(), example.without)
    assert isinstance(poorer, HostModel)
    outcome = list(CHECKS[example.rule](poorer))
    assert any("taken away" in getattr(one, "missing", "") for one in outcome), outcome
