"""Each complaint of users leads to something that exists."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pains
import pytest

from provision.doctor.document_rules import BUNDLE_RULES, DOCUMENT_RULES
from provision.doctor.log.signatures import SIGNATURES
from provision.doctor.rules import RULES
from provision.verify.checks import CHECKS

RULE_NAMES = {
    *(rule.id for rule in (*RULES, *DOCUMENT_RULES, *BUNDLE_RULES)),
    *(name for signature in SIGNATURES for name in (signature.id, signature.name)),
}
CHECK_NAMES = {name for name, _ in CHECKS}
PLANNERS = {path.stem for path in Path(str(files("provision.plan.planners").joinpath(""))).glob("*.py")}


def test_none_of_the_55_is_left_out():
    assert list(pains.PAINS) == list(range(1, 56))


@pytest.mark.parametrize("number", pains.PAINS)
def test_what_meets_it_exists(number):
    pain = pains.PAINS[number]
    assert set(pain.rules) <= RULE_NAMES
    assert set(pain.checks) <= CHECK_NAMES
    assert set(pain.planners) <= PLANNERS


@pytest.mark.parametrize("number", pains.PAINS)
def test_something_meets_it_or_the_reason_is_given(number):
    pain = pains.PAINS[number]
    assert bool(pain.rules or pain.checks or pain.planners) != bool(pain.outside)
    assert not pain.outside or len(pain.outside.split()) > 8
