"""What collectives over some or all GPUs show of a set."""

from __future__ import annotations

from typing import Any

import pytest

from provision.guest.nccl import NcclAnswer, from_data
from provision.guest.onboard.nccl_ladder import ladder
from provision.guest.verdict_sets import shown_by, transports_of
from provision.lab.nccl_simulator import SimulatedNccl

FIRST, SECOND, ALL = frozenset({0, 1}), frozenset({2, 3}), frozenset({0, 1, 2, 3})
TWO_CLIQUES = frozenset({(0, 1), (1, 0), (2, 3), (3, 2)})


def answer(*faults: dict[str, Any], pairs: frozenset[tuple[int, int]] | None = None, far: bool = True) -> NcclAnswer:
    machine = SimulatedNccl(4, granted=True, far=far, faults=faults, pairs=pairs)
    return from_data(ladder({"sizes": (4096,)}, machine))


def test_nccl_s_own_limit_is_no_obstacle_to_the_proof() -> None:
    shown = shown_by(answer(), ALL, 4)
    assert (shown.verdict, "p2p-any-distance" in shown.reason) == ("PROVEN", True)
    assert "p2p-on" in shown_by(answer(far=False), ALL, 4).reason


def test_a_hang_of_fewer_gpus_speaks_against_the_whole_set() -> None:
    shown = shown_by(answer({"kind": "hang", "rank": 1, "count": 2, "p2p": True}), ALL, 4)
    assert shown.verdict == "HANG"
    assert "over 2 GPUs" in shown.reason


def test_a_hang_of_all_gpus_is_no_less_one() -> None:
    assert shown_by(answer({"kind": "hang", "rank": 1, "count": 4, "p2p": True}), ALL, 4).verdict == "HANG"


def test_a_mirror_is_wrong_data() -> None:
    assert shown_by(answer({"kind": "mirror"}), ALL, 4).verdict == "WRONG_DATA"


@pytest.mark.parametrize("members", [FIRST, SECOND])
def test_each_clique_is_proven_by_a_collective_in_which_it_took_part(members: frozenset[int]) -> None:
    found = answer(pairs=TWO_CLIQUES)
    assert shown_by(found, members, 4).verdict == "PROVEN"
    assert shown_by(found, ALL, 4).verdict == "GRANTED_UNPROVEN"


def test_a_set_whose_members_never_meet_in_a_collective_is_not_proven() -> None:
    found = answer(pairs=frozenset({(0, 2), (2, 0)}))
    assert shown_by(found, frozenset({0, 2}), 4).verdict == "GRANTED_UNPROVEN"


def test_transports_are_those_of_the_run_that_used_p2p_most() -> None:
    found = answer()
    assert set(transports_of(found, p2p=True).values()) == {("P2P/CUMEM",)}
    assert set(transports_of(found, p2p=False).values()) == {("SHM/direct/direct",)}
    assert transports_of(None, p2p=True) == {}
