"""Honesty: taking any one fact away never turns a finding into silence."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from provision.doctor.engine import diagnose
from provision.doctor.finding import Report
from provision.doctor.rules import RULES
from provision.evidence import Unknown
from provision.host.model import HostModel

GONE = Unknown(unknown="taken away", supply="give it back")
IDS = [rule.id for rule in RULES]


def may_be_unknown(annotation: Any) -> bool:
    if get_origin(annotation) in (Union, types.UnionType):
        return Unknown in get_args(annotation)
    return False


def thinned(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every copy of ``value`` in which exactly one fact is unknown, with the fact's path."""
    if isinstance(value, Unknown):
        return
    if isinstance(value, BaseModel):
        yield from _thinned_model(value)
    elif isinstance(value, tuple):
        for index, one in enumerate(value):
            for path, copy in thinned(one):
                yield f"{index}.{path}", (*value[:index], copy, *value[index + 1 :])
    elif isinstance(value, dict):
        yield from _thinned_dict(value)


def _thinned_model(value: BaseModel) -> Iterator[tuple[str, Any]]:
    for name, info in type(value).model_fields.items():
        own = getattr(value, name)
        if may_be_unknown(info.annotation) and not isinstance(own, Unknown):
            yield name, value.model_copy(update={name: GONE})
        for path, copy in thinned(own):
            yield f"{name}.{path}", value.model_copy(update={name: copy})


def _thinned_dict(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, one in value.items():
        if isinstance(one, BaseModel):
            yield key, {k: v for k, v in value.items() if k != key}
        for path, copy in thinned(one):
            yield f"{key}.{path}", {**value, key: copy}


def silent(report: Report) -> set[str]:
    return set(report.silent)


def test_thinning_reaches_facts_at_every_depth(healthy):
    paths = {path for path, _ in thinned(healthy)}
    assert {"hostname", "kernel.phys_bits", "pci.2.iommu_group", "proxmox.vms", "proxmox.vms.0.config_text"} <= paths
    assert {"files./etc/default/grub", "files./etc/default/grub.content", "proxmox.mapping_file.content"} <= paths


@pytest.mark.parametrize("rule", IDS)
def test_no_finding_turns_into_silence(sick, rule):
    model: HostModel = sick[rule]()
    fired = {finding.rule for finding in diagnose(model).findings}
    rules = [one for one in RULES if one.id in fired]
    for path, poorer in thinned(model):
        report = diagnose(poorer, rules=rules)
        assert not report.crashed, f"without {path}: {report.crashed}"
        assert not fired & silent(report), f"without {path}: {fired & silent(report)} fell silent"


def test_a_healthy_host_never_gains_a_finding_by_losing_a_fact(healthy):
    for path, poorer in thinned(healthy):
        report = diagnose(poorer)
        assert not report.crashed, f"without {path}: {report.crashed}"
        assert not report.findings, f"without {path}: {report.findings}"


@pytest.mark.parametrize("rule", IDS)
def test_severity_never_falls_with_a_fact(sick, rule):
    model: HostModel = sick[rule]()
    rules = [one for one in RULES if one.id == rule]
    before = min(_rank(f.severity) for f in diagnose(model, rules=rules).findings)
    for path, poorer in thinned(model):
        after = [_rank(f.severity) for f in diagnose(poorer, rules=rules).findings]
        assert not after or min(after) <= before, f"without {path}"


def _rank(severity: str) -> int:
    return ("error", "warning", "info").index(severity)
