"""The run that has a host's lock, as a capture alone shows it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.host.own_run import LOCK, decision_path
from provision.plan.unfinished import unfinished_of

RUN = "20260102T030405Z-0a1b2c"
WithFile = Callable[..., HostModel]


def test_no_lock_no_run(epyc: HostModel) -> None:
    assert unfinished_of("pve1", epyc) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"run": 7}', Unknown(unknown="denied")])
def test_a_lock_that_names_no_run(epyc: HostModel, with_file: WithFile, text: object) -> None:
    assert unfinished_of("pve1", with_file(epyc, LOCK, text)) is None


@pytest.mark.parametrize(
    ("decided", "state", "command"),
    [
        (None, "", f"pvectl apply pve1 --resume {RUN}"),
        ("confirmed", "", f"pvectl apply pve1 --resume {RUN}"),
        ("fired", "taken back by its dead-man", f"pvectl rollback pve1 {RUN}"),
    ],
)
def test_the_way_on_is_what_the_dead_man_left(
    epyc: HostModel, with_file: WithFile, decided: str | None, state: str, command: str
) -> None:
    model = with_file(epyc, LOCK, json.dumps({"run": RUN}))
    if decided:
        model = with_file(model, decision_path(RUN), json.dumps({"decided": decided, "boot_id": "b"}))
    found = unfinished_of("pve1", model)
    assert found is not None
    assert (found.run, found.state, found.next_command) == (RUN, state, command)
