"""Risky steps, one after the other in a child: which of them hangs, crashes or fails is the result.

A child says ``{"begin": key}`` before a step and ``{"end": key, "result": ...}`` after it.  A hang or a crash
costs the child; the next one goes on with the step after.  A failed call too, because after some of them
every later call of that process fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from provision.guest.onboard.bench import Bench
from provision.guest.onboard.child import GRACE, Say
from provision.guest.onboard.errors import CallFailed, Missing

START_DEADLINE = 60.0
"""Seconds for a child's first contact with the driver: eight GPUs take tens of seconds after a boot."""
BAD = ("hang", "crash", "error", "refused")
"""After one of these a pair's later steps are not run."""


class Step(NamedTuple):
    key: str
    group: str
    """Steps of a group are skipped after one of them went bad; "" for none."""
    deadline: float
    run: Callable[[Bench], Any]
    """Returns a dict with ``state``."""


def drive(
    start: Callable[[Any], Any], make_cuda: Callable[[], Any], steps: Iterable[Step], until: float
) -> dict[str, Any]:
    """Run the steps until the monotonic time ``until``.  Returns the result of each by its key."""
    every = list(steps)
    results: dict[str, Any] = {}
    stuck: str | None = None
    left = every
    while left:
        for step in left:
            reason = _reason(step, every, results, until)
            if stuck:
                reason = f"the process of {stuck} is stuck in the driver and cannot be killed"
            if reason:
                results[step.key] = {"state": "skipped", "reason": reason}
        left = [step for step in every if step.key not in results]
        if left:
            stuck = _one_child(start, make_cuda, left, results, until)
            left = [step for step in every if step.key not in results]
    return results


def _reason(step: Step, every: Iterable[Step], results: dict[str, Any], until: float) -> str | None:
    """Return why a step must not or cannot be run any more."""
    if time.monotonic() >= until:
        return "out of time"
    for other in every:
        state = results.get(other.key, {}).get("state")
        if step.group and other.group == step.group and state in BAD:
            return f"{other.key} ended as {state}"
    return None


def _one_child(
    start: Callable[[Any], Any], make_cuda: Callable[[], Any], left: list[Step], results: dict[str, Any], until: float
) -> str | None:
    """Run as many steps as one child survives.  Returns the key of a step whose process cannot be killed."""
    child = start(lambda say: _work(say, make_cuda, left, dict(results), until))
    by_key, current, deadline, dead = {step.key: step for step in left}, None, START_DEADLINE, True
    try:
        while True:
            said = child.line(deadline)
            if said == "hang":
                dead = child.kill()
                results[current or left[0].key] = {"state": "hang", "reason": f"no answer in {deadline:g} s"}
                break
            if said == "end":
                _note_end(child, current, left, results)
                break
            if "begin" in said:
                current = said["begin"]
                deadline = by_key[current].deadline
            elif "end" in said:
                results[said["end"]] = said["result"]
                current, deadline = None, START_DEADLINE
            else:
                results[left[0].key] = said["failed"]
    finally:
        child.close()
    return None if dead else current or left[0].key


def _note_end(child: Any, current: str | None, left: list[Step], results: dict[str, Any]) -> None:
    """A child that ended in a step, or before it did anything, crashed there."""
    child.wait(GRACE)
    if current is None and any(step.key in results for step in left):
        return
    key = current or left[0].key
    results.setdefault(key, {"state": "crash", "reason": f"the child ended by {child.ending}"})


def _work(say: Say, make_cuda: Callable[[], Any], steps: list[Step], results: dict[str, Any], until: float) -> None:
    """In the child: run until a call fails."""
    try:
        bench = Bench(make_cuda())
    except (CallFailed, Missing) as error:
        say({"failed": failure(error)})
        return
    for step in steps:
        reason = _reason(step, steps, results, until)
        if reason:
            result = {"state": "skipped", "reason": reason}
        else:
            say({"begin": step.key})
            result = _run(step, bench)
        results[step.key] = result
        say({"end": step.key, "result": result})
        if result["state"] == "error":
            return


def _run(step: Step, bench: Bench) -> dict[str, Any]:
    begin = time.monotonic()
    try:
        result: dict[str, Any] = step.run(bench)
    except (CallFailed, Missing) as error:
        result = failure(error)
    return {**result, "seconds": round(time.monotonic() - begin, 3)}


def failure(error: Exception) -> dict[str, Any]:
    """Return a failed call as a result."""
    return {
        "state": "error",
        "reason": str(error),
        "call": getattr(error, "call", None),
        "code": getattr(error, "code", None),
    }
