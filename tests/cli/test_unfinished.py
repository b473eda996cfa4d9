"""After exit 6: plan and apply speak of the run that waits, before anything else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def test_a_run_that_waits_for_the_reboot(on_lab: Callable[..., Any]) -> None:
    host = on_lab("epyc-8x-rtxpro6000")
    host.pvectl("apply", "--yes").must(6)
    (run,) = host.runs()
    way_on = f"pvectl apply pve1 --resume {run} --reboot"
    planned = host.call("plan").must(0, f"Run {run} is unfinished (waiting for the reboot)", f"Next: {way_on}")
    assert "someone else" not in planned.out
    data = json.loads(host.call("plan", "--output", "json").must(0).out)["data"]
    assert data["unfinished"] == {"run": run, "state": "waiting for the reboot", "next_command": way_on}
    second = host.call("apply", "--yes").must(4, f"run {run} of", "(waiting for the reboot)")
    assert "Plan for" not in second.out
    assert f"pvectl apply --resume {run} --reboot" in second.err.splitlines()[-1]
    host.call("capture", "-o", "capture").must(0)
    host.call("plan", "--from", "capture").must(0, f"Run {run} is unfinished:", f"pvectl apply pve1 --resume {run}")
    host.call("apply", "--resume", run, "--reboot").must(0)
    assert "unfinished" not in host.call("plan", "--detailed-exitcode").must(0).out
