"""Which environment is advised, and because of what."""

from __future__ import annotations

from typing import Any

import pytest

from provision.errors import Undecided
from provision.evidence import Unknown
from provision.guest.nccl import NcclAnswer, fit, from_data, parse_nccl
from provision.guest.nccl_advice import advise
from provision.guest.onboard.nccl_ladder import ladder
from provision.lab.nccl_simulator import SimulatedNccl


def answer(machine: SimulatedNccl, mode: str = "quick", **options: Any) -> NcclAnswer:
    return from_data(ladder({"sizes": (4096, 16384), "mode": mode, **options}, machine))


def words(machine: SimulatedNccl, mode: str = "quick", **options: Any) -> list[str]:
    advice = advise(answer(machine, mode, **options))
    assert not isinstance(advice, Unknown), advice
    return [f"{each.name}={each.value}" for each in advice]


def test_nccls_own_choice_is_right_where_p2p_is_used_and_right() -> None:
    assert words(SimulatedNccl(4, granted=True, far=False)) == []


def test_nothing_is_advised_where_nothing_is_granted() -> None:
    assert words(SimulatedNccl(4), "full") == []


def test_the_limit_of_distance_is_raised_because_it_was_measured() -> None:
    found = advise(answer(SimulatedNccl(4, granted=True), "full"))
    assert not isinstance(found, Unknown)
    assert (found[0].name, found[0].value) == ("NCCL_P2P_LEVEL", "SYS")
    assert "every value was right" in found[0].because
    assert "us without" in found[0].because


def test_a_quick_run_raises_the_limit_too() -> None:
    assert words(SimulatedNccl(4, granted=True)) == ["NCCL_P2P_LEVEL=SYS"]


def test_settings_that_nccl_itself_refuses_do_not_speak_against_p2p() -> None:
    good = answer(SimulatedNccl(2, granted=True, far=False), env={"NCCL_ALGO": "Tree"})
    runs = tuple(
        run.model_copy(update={"state": "failed", "reason": "invalid usage"}) if run.setting == "given" else run
        for run in good.runs
    )
    assert advise(good.model_copy(update={"runs": runs})) == ()


def test_wrong_values_with_p2p_switch_it_off() -> None:
    found = advise(answer(SimulatedNccl(2, granted=True, far=False, faults=({"kind": "mirror"},))))
    assert not isinstance(found, Unknown)
    assert (found[0].name, found[0].value, found[0].because) == (
        "NCCL_P2P_DISABLE",
        "1",
        "p2p-on with 2 GPUs ended with wrong values",
    )


def test_wrong_values_at_any_distance_switch_p2p_off_although_the_default_did_not_use_it() -> None:
    assert words(SimulatedNccl(4, granted=True, faults=({"kind": "mirror"},)), "full") == ["NCCL_P2P_DISABLE=1"]


def test_p2p_that_was_not_allowed_to_run_stays_off() -> None:
    assert words(SimulatedNccl(2, granted=True), p2p_refused="risk") == ["NCCL_P2P_DISABLE=1"]


def test_a_hang_without_p2p_is_no_matter_of_settings() -> None:
    found = advise(answer(SimulatedNccl(4, faults=({"kind": "hang", "count": 4},))))
    assert isinstance(found, Unknown)
    assert "no setting helps" in found.unknown


def test_faults_on_purpose_and_skipped_ladders_advise_nothing() -> None:
    fault = {"kind": "wrong", "rank": 0, "step": "all_reduce/4096"}
    assert isinstance(advise(answer(SimulatedNccl(2), fault=fault)), Unknown)
    assert isinstance(advise(answer(SimulatedNccl(2, installed=False))), Unknown)


def test_an_answer_that_is_none() -> None:
    with pytest.raises(Undecided, match="Unable to judge NCCL"):
        parse_nccl("Traceback\n{}\n")


def test_the_fit_weighs_small_and_large_alike() -> None:
    line = fit([(4096.0, 10.1), (1 << 20, 100.0), (1 << 28, 25000.0)])
    assert line is not None
    assert line.deviation < 0.05
    assert fit([(1.0, 2.0), (1.0, 3.0)]) is None
    assert fit([(1.0, 0.0), (2.0, 3.0)]) is None
