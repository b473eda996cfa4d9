"""What only a boot brings about: cards that stay awake, names that stay; and verify where it did not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.story

KILLED = -9
EPYC = "epyc-8x-rtxpro6000"
CHECKS = ("d3cold", "idle-d3", "network-name")


def states(host: Any, *more: str, code: int) -> dict[str, str]:
    """The state of each check of these facts, as ``verify`` judges all its subjects."""
    answer = host.call("verify", *more, "--output", "json").must(code)
    results = [row for row in json.loads(answer.out)["data"]["results"] if row["check"] in CHECKS]
    found = {(row["check"], row["judgement"]["state"]) for row in results}
    assert len(found) == len(CHECKS), found
    return dict(found)


def test_cards_are_awake_and_names_are_kept_after_the_boot(on_lab: Callable[..., Any]) -> None:
    host = on_lab(EPYC, on_host=True)
    wish = host.inventory(lambda d: d["policies"].update(network={"pin": "always"}), "pinned.yaml")
    host.pvectl("apply", "-i", wish, "--yes", "--reboot").must(KILLED)
    host.lab.wait_until_up()
    unit = host.lab.wait_for_services()[-1]
    assert unit.rc == 0, unit.err
    assert states(host, "-i", wish, code=0) == dict.fromkeys(CHECKS, "pass")
    for fault in ("d3cold-ignored", "idle-d3-ignored", "links-ignored"):
        host.break_(fault)
    host.lab.reboot()
    assert states(host, "-i", wish, code=7) == dict.fromkeys(CHECKS, "fail")
