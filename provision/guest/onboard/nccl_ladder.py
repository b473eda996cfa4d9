"""The NCCL ladder: the server's own NCCL, one process for each GPU, values checked, times taken, log read.

For each setting and each number of GPUs one group of processes runs (:mod:`nccl_group`); once more for
the largest number, untimed, with NCCL's choice of algorithm in the log, which would disturb the times.

Refuses while others use the GPUs unless told; leaves no file.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from provision.guest.onboard.child import in_child
from provision.guest.onboard.errors import CallFailed, Missing
from provision.guest.onboard.nccl_calls import RealMachine
from provision.guest.onboard.nccl_find import find
from provision.guest.onboard.nccl_group import Group
from provision.guest.onboard.nccl_plan import (
    ANY_DISTANCE,
    LIMITS,
    TRACE_SUBSYSTEMS,
    bandwidths,
    counts,
    settings,
    steps,
)

SCHEMA = "pvectl.nccl/1"
CHILD_SECONDS = 60.0
CONFIGURATION = ("/etc/nccl.conf", "~/.nccl.conf")
STUCK = "could not be killed"

DEFAULTS: dict[str, Any] = {
    "mode": "quick",
    "env": None,
    "library": "",
    "p2p_refused": "",
    "fault": None,
    "busy": [],
    "sizes": None,
    "limits": {},
}
"""``env``: settings of a file, by name.  ``p2p_refused``: why no run may use P2P, or empty.  ``busy``: who uses the
GPUs.  ``fault``: see :mod:`nccl_fault`.  ``sizes``: bytes in place of the mode's.  ``limits``: seconds in place of
those of the mode (``first_seconds``, ``step_seconds``, ``total_seconds``)."""


def ladder(options: dict[str, Any], machine: Any = RealMachine, root: str = "/") -> dict[str, Any]:
    """Return the whole answer; ``state`` is ``ok`` (it ran, whatever it found), ``skipped`` or ``failed``."""
    wanted = {**DEFAULTS, **options}
    answer: dict[str, Any] = {
        "schema": SCHEMA,
        "mode": wanted["mode"],
        "libraries": [],
        "library": None,
        "gpus": None,
        "inherited": {name: value for name, value in sorted(os.environ.items()) if name.startswith("NCCL_")},
        "configuration_files": [path for path in CONFIGURATION if os.path.exists(os.path.expanduser(path))],
        "fault": wanted["fault"],
        "runs": [],
    }
    begin = time.monotonic()
    reason = _prepare(answer, wanted, machine() if isinstance(machine, type) else machine, root)
    answer["seconds"] = round(time.monotonic() - begin, 1)
    return {**answer, "state": "skipped" if reason else "ok", "reason": reason}


def _prepare(answer: dict[str, Any], wanted: dict[str, Any], machine: Any, root: str) -> str:
    """Find library and GPUs, then run.  Returns why it cannot, or an empty text."""
    answer["libraries"] = machine.find() if hasattr(machine, "find") else find(root, wanted["library"])
    if not answer["libraries"]:
        return "no libnccl.so was found: not in a running process, in site-packages, in a container nor in a folder"
    if wanted["busy"]:
        return "not while the GPUs are or may be in use: " + ", ".join(str(user) for user in wanted["busy"])
    ask: Callable[[Callable[[], dict[str, Any]], float], dict[str, Any]] = in_child if machine.forks else _here
    _choose(answer, machine, ask)
    if answer["library"] is None:
        reasons = "; ".join(f"{copy['path']}: {copy['error']}" for copy in answer["libraries"])
        return f"no copy of NCCL loads: {reasons}"
    counted = ask(lambda: _guarded(lambda: {"gpus": machine.count_gpus()}), CHILD_SECONDS)
    answer["gpus"] = counted.get("gpus")
    if answer["gpus"] is None:
        return f"CUDA does not answer: {counted.get('reason', '')}"
    if answer["gpus"] < 2:
        return f"a collective needs two GPUs and CUDA shows {answer['gpus']}"
    _run_all(answer, wanted, machine.with_library(answer["library"]["path"]))
    return ""


def _choose(answer: dict[str, Any], machine: Any, ask: Any) -> None:
    """Take the first copy that loads; say of each copy its version or why it does not load."""
    for copy in answer["libraries"]:
        read = ask(lambda path=copy["path"]: _guarded(lambda: machine.read_version(path)), CHILD_SECONDS)
        copy["version"] = read.get("version")
        copy["error"] = read.get("reason")
        if copy["version"] and answer["library"] is None:
            answer["library"] = copy


def _guarded(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return call()
    except (CallFailed, Missing) as error:
        return {"state": "failed", "reason": str(error)}


def _here(work: Callable[[], dict[str, Any]], _deadline: float) -> dict[str, Any]:
    return work()


def _run_all(answer: dict[str, Any], wanted: dict[str, Any], machine: Any) -> None:
    limits = {**LIMITS[wanted["mode"]], **wanted["limits"]}
    end = time.monotonic() + limits["total_seconds"]
    for setting in settings(wanted["mode"], wanted["env"]):
        bad = ""
        for count, traced in _rungs(answer["gpus"]):
            reason = bad or _not_now(answer, wanted, setting, end)
            run = {"setting": setting["name"], "env": setting["env"], "count": count, "traced": traced}
            if reason:
                answer["runs"].append({**run, "state": "skipped", "reason": reason, "steps": [], "ranks": []})
                continue
            run.update(_run(machine, wanted, setting, count, traced, limits))
            answer["runs"].append(run)
            if run["state"] != "ok":
                bad = f"{setting['name']} with {count} GPUs ended: {run['state']}"


def _rungs(gpus: int) -> list[tuple[int, bool]]:
    """Return (number of GPUs, whether for the log alone) from the smallest to the largest."""
    numbers = counts(gpus)
    return [*((number, False) for number in numbers), (numbers[-1], True)]


def _not_now(answer: dict[str, Any], wanted: dict[str, Any], setting: dict[str, Any], end: float) -> str:
    if setting["p2p"] and wanted["p2p_refused"]:
        return str(wanted["p2p_refused"])
    if setting["name"] == ANY_DISTANCE["name"] and _goes_by_p2p(answer):
        return "with NCCL's own limit of distance every transfer goes by P2P already"
    if any(rank["ending"] == STUCK for run in answer["runs"] for rank in run["ranks"]):
        return "a process of an earlier run is stuck in the driver: restart the guest"
    if time.monotonic() > end:
        return "the time for this mode is used up"
    return ""


def _goes_by_p2p(answer: dict[str, Any]) -> bool:
    """Whether every transfer of the largest run with P2P went by it."""
    runs = [run for run in answer["runs"] if run["setting"] == "p2p-on" and run["count"] == answer["gpus"]]
    ways = [way for run in runs for way in run.get("log", {}).get("transports", [])]
    return bool(ways) and all(way["via"].startswith("P2P") for way in ways)


def _run(
    machine: Any, wanted: dict[str, Any], setting: dict[str, Any], count: int, traced: bool, limits: dict[str, float]
) -> dict[str, Any]:
    plan = steps(wanted["mode"], wanted["sizes"], timed=not traced)
    options = {**limits, "env": setting["env"], "fault": wanted["fault"]}
    if traced:
        options["subsystems"] = TRACE_SUBSYSTEMS
    begin = time.monotonic()
    result = Group(machine, count, plan, options).run() if machine.forks else machine.run_group(count, plan, options)
    return {
        "state": result["state"],
        "reason": result["reason"],
        "steps": [joined(step, count, result["ranks"]) for step in plan],
        "ranks": [{key: rank[key] for key in ("rank", "at", "error", "ending")} for rank in result["ranks"]],
        "log": result["log"],
        "seconds": round(time.monotonic() - begin, 1),
    }


def joined(step: dict[str, Any], count: int, ranks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one step over all ranks: the slowest rank's time, and every rank's wrong value."""
    mine = [(rank["rank"], done) for rank in ranks for done in rank["steps"] if done["name"] == step["name"]]
    times = [done["us"] for _rank, done in mine if done["us"] is not None]
    us = max(times) if len(times) == count else None
    bandwidth = bandwidths(step["collective"], count, step["bytes"], us) if us else {}
    return {
        "collective": step["collective"],
        "bytes": step["bytes"],
        "checked": len(mine),
        "wrong": [{"rank": rank, **done["wrong"]} for rank, done in mine if done["wrong"]],
        "us": us and round(us, 3),
        "algorithm_gbs": bandwidth.get("algorithm_gbs"),
        "bus_gbs": bandwidth.get("bus_gbs"),
    }


def main(arguments: list[str]) -> int:
    """Run with options as one JSON text and write the answer to standard output."""
    options = json.loads(arguments[0]) if arguments else {}
    sys.stdout.write(json.dumps(ladder(options)) + "\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
