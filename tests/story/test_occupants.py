"""What else a reboot takes down: a container and a service under high availability, on a simulated host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.story

EPYC = "epyc-8x-rtxpro6000"


def test_a_running_container_needs_consent(on_lab: Callable[..., Any]) -> None:
    host = on_lab(EPYC, "container-running")
    host.call("apply", "--yes", "--reboot").must(4, "container 190 is running", "--stop-guests")
    assert host.lab.host.reboots == 0
    host.call("apply", "--yes", "--reboot", "--stop-guests").must(0, "Apply done")


def test_high_availability_that_would_move_a_service_is_respected(on_lab: Callable[..., Any]) -> None:
    host = on_lab(EPYC, "container-running", "ha-managed")
    (host.root / "etc/pve/ha/resources.cfg").write_text("ct: 190\n\tstate started\n")
    (host.root / "etc/pve/datacenter.cfg").write_text("ha: shutdown_policy=migrate\n")
    refused = host.call("apply", "--yes", "--reboot", "--stop-guests")
    refused.must(4, "ct:190 would be taken to other nodes", "ha-manager crm-command node-maintenance enable pve1")
    (host.root / "etc/pve/ha/manager_status").write_text('{"node_status": {"pve1": "maintenance"}}\n')
    host.call("apply", "--yes", "--reboot", "--stop-guests").must(0, "Apply done")
