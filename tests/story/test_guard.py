"""What the host itself lives on is never taken: refused by plan and by apply, with device, group and reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.story

REFUSED = (
    (
        "workstation-shared-nic",
        "ws1",
        "0000:04:00.0",
        r"IOMMU group \d+ .* 0000:06:00\.0, which carries the host's net",
    ),
    ("workstation-shared-nic", "ws1", "0000:04:00.0", r"IOMMU group \d+ .* which holds disk sda of the host"),
    ("desktop-single-gpu", "desk1", "0000:01:00.0", r"IOMMU group \d+ .*, is the host's only display"),
)
VERBS = (("plan",), ("apply", "--yes", "--reboot", "--stop-guests"))


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
@pytest.mark.parametrize(("machine", "node", "device", "reason"), REFUSED)
def test_devices_of_the_host_are_refused(
    on_lab: Callable[..., Any], machine: str, node: str, device: str, reason: str, verb: tuple[str, ...]
) -> None:
    host = on_lab(machine)
    before = host.files()
    answer = host.call(*verb).must(4, node, "hint: ")
    found = [line for line in answer.err.splitlines() if line.startswith(f"  - {device}") and re.search(reason, line)]
    assert len(found) == 1, answer.err
    assert host.files() == before


def test_the_console_policy_opens_no_other_door(on_lab: Callable[..., Any]) -> None:
    host = on_lab("workstation-shared-nic")
    before = host.files()
    forced = host.inventory(lambda d: d["policies"].update(console="headless"))
    answer = host.call("plan", "-i", forced, "-o", "plan.json").must(4, "carries the host's network", "holds disk sda")
    assert "only display" not in answer.err
    assert not (host.home / "plan.json").exists()
    assert host.files() == before


def test_the_display_may_be_given_away_on_purpose(on_lab: Callable[..., Any]) -> None:
    """The way out that the hint names is one."""
    host = on_lab("desktop-single-gpu")
    assert "policies.console" in host.call("plan").must(4).err
    agreed = host.inventory(lambda d: d["policies"].update(console="headless"))
    host.call("apply", "-i", agreed, "--yes", "--reboot").must(0)
    host.call("plan", "-i", agreed, "--detailed-exitcode").must(0)


def test_the_other_gpu_of_the_workstation_is_planned(on_lab: Callable[..., Any]) -> None:
    """The hint of the shared group, followed word by word."""
    host = on_lab("workstation-shared-nic")
    wish = host.inventory(lambda d: _as_root(host, _leave_out(d)))
    host.call("apply", "-i", wish, "--yes", "--reboot").must(0)
    host.call("plan", "-i", wish, "--detailed-exitcode").must(0)


def test_what_a_token_may_not_do_goes_over_the_root_shell(on_lab: Callable[..., Any]) -> None:
    host = on_lab("workstation-shared-nic")
    wish = host.inventory(_leave_out)
    host.call("plan", "-i", wish).must(0, "[API token", "[root shell")
    host.call("apply", "-i", wish, "--yes", "--reboot").must(0)
    host.call("plan", "-i", wish, "--detailed-exitcode").must(0)


def _leave_out(document: dict[str, Any]) -> dict[str, Any]:
    """Leave the GPU beside the network card to the host, and agree to give the display away."""
    document["policies"]["console"] = "headless"
    document["hosts"]["ws1"]["vms"][100]["gpus"] = {"all but": ["0000:04:00.0"]}
    return document


def _as_root(host: Any, document: dict[str, Any]) -> dict[str, Any]:
    """Let root@pam sign in by password: this VM holds its GPU by address, which a token may not change."""
    for node in document["hosts"].values():
        secret = {"file": str(host.lab.lab.site.password)}
        node["api"] = {"auth": "ticket", "url": node["api"]["url"], "user": "root@pam", "secret": secret}
    return document
