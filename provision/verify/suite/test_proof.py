"""The proof: every expectation of the plan, judged on host and guest.

Run by ``pvectl verify``.  An expectation that cannot be decided is an error of its test, not a failure, and the
run then ends with 8, not 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from provision.errors import Undecided
from provision.plan.model import Expectation
from provision.verify.checks import judge
from provision.verify.facts import Proof, Result


def _prove(proof: Proof, expectation: Expectation, record: Callable[[Result], None]) -> None:
    judgement = judge(proof.facts, expectation)
    record(
        Result(check=expectation.check, subject=expectation.subject, expected=expectation.expected, judgement=judgement)
    )
    if judgement.state == "undecided":
        raise Undecided(
            f"Unable to judge {expectation.check} of {expectation.subject}: {judgement.text}", judgement.hint
        )
    assert judgement.state == "pass", judgement.text


@pytest.mark.pvectl_role("host")
def test_host(
    host: Any, pvectl_proof: Proof, pvectl_expectation: Expectation, pvectl_record: Callable[[Result], None]
) -> None:
    _prove(pvectl_proof, pvectl_expectation, pvectl_record)


@pytest.mark.pvectl_role("guest")
def test_guest(
    host: Any, pvectl_proof: Proof, pvectl_expectation: Expectation, pvectl_record: Callable[[Result], None]
) -> None:
    _prove(pvectl_proof, pvectl_expectation, pvectl_record)
