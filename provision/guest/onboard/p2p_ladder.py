"""The whole measurement between GPUs: which steps, in which order, and what each pair comes to.

Per pair first the control with peer access off, which can do no harm, then data, then times; the pairs one after
the other, at the end all at once.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from provision.guest.onboard import p2p_all, p2p_data, p2p_times
from provision.guest.onboard.bench import MIB, Bench
from provision.guest.onboard.cuda import ATTRIBUTES
from provision.guest.onboard.errors import attempt
from provision.guest.onboard.injection import inject
from provision.guest.onboard.p2p_guard import busy, is_nvlink, risk
from provision.guest.onboard.steps import Step, drive

DEADLINE = {"quick": 80.0, "full": 540.0}
STEP_DEADLINE = {"quick": 15.0, "full": 120.0}
INJECTED_DEADLINE = 8.0
BUSY_WINDOW = 256 * MIB
ORDER = ("access", "staged", "data", "times", "ping-pong", "both", "staged-both")
"""Of one pair; ``ping-pong`` and the two after it serve both directions."""
PENALTY = ("hang", "crash", "error", "refused", "wrong-data", "skipped")
"""Which state of a step names the pair's, worst first."""
SHARED_STEPS = ("ping_pong", "both")
SHARED = {"hang": "hang", "crash": "crash", "error": "error", "no-answer": "hang"}


def p2p(answer: dict[str, Any], options: Any, libraries: Any) -> dict[str, Any]:
    """Return the section ``p2p`` of the answer; ``answer`` holds the levels.

    ``state``: ``ok`` (measured, whatever was found), ``refused`` (the GPUs are in use) or ``skipped``, the last two
    with ``reason``.  ``pairs`` has a row for each ordered pair: its ``state`` is ``ok`` (data right), ``wrong-data``,
    ``hang``, ``crash``, ``error``, ``refused`` (by the driver) or ``skipped``; ``at`` names the step that it comes
    from; each step that was run or skipped has a dict of its own (``access``, ``staged``, ``data``, ``times``,
    ``ping_pong``, ``both``, ``staged_both``).  ``all`` is the run of all pairs at once.
    """
    begin = time.monotonic()
    level: str = options.p2p
    head = {"level": level, "injected": options.inject, "while_busy": options.while_busy}
    reason = busy(answer["nvml"])
    if reason and not options.while_busy:
        return {"state": "refused", "reason": reason, **head}
    bdfs = _bdfs(answer["cuda"])
    if isinstance(bdfs, str):
        return {"state": "skipped", "reason": bdfs, **head}
    pairs = _chosen(options.pairs, len(bdfs))
    if isinstance(pairs, str):
        return {"state": "skipped", "reason": pairs, **head}
    return {"state": "ok", **head, **_measure(answer, options, libraries, bdfs, pairs, begin)}


def _bdfs(cuda: dict[str, Any]) -> list[str] | str:
    """Addresses of the GPUs that CUDA can use, in its own numbers."""
    if cuda["state"] != "ok":
        return f"CUDA: {cuda['state']}: {cuda.get('reason')}"
    bdfs = [gpu["bdf"] for gpu in cuda["gpus"]]
    if len(bdfs) < 2:
        return f"CUDA sees {len(bdfs)} GPU"
    return [bdf if isinstance(bdf, str) else f"GPU {index}" for index, bdf in enumerate(bdfs)]


def _chosen(asked: Any, count: int) -> list[tuple[int, int]] | str:
    every = [(a, b) for a in range(count) for b in range(count) if a != b]
    if not asked:
        return sorted(every, key=lambda pair: (min(pair), max(pair), pair))
    missing = [pair for pair in asked if pair not in every]
    return f"there is no pair {missing[0][0]}-{missing[0][1]} among {count} GPUs" if missing else list(asked)


def _measure(
    answer: dict[str, Any],
    options: Any,
    libraries: Any,
    bdfs: list[str],
    pairs: list[tuple[int, int]],
    begin: float,
) -> dict[str, Any]:
    nvlink = {pair: is_nvlink(answer["nvml"], *pair) for pair in pairs}
    risks = {pair: risk((bdfs[pair[0]], bdfs[pair[1]]), nvlink[pair], options.host_paths) for pair in pairs}
    steps: list[Step] = []
    for pair in pairs:
        allowed = risks[pair] is None or options.accept_risk
        steps += pair_steps(pair, pairs, options, allowed)

    def make_cuda() -> Any:
        return inject(options.inject, libraries.cuda())

    until = begin + (options.deadline or DEADLINE[options.p2p])
    results = drive(libraries.start, make_cuda, steps, until)
    rows = [_row(pair, pairs, bdfs, nvlink[pair], risks[pair], options, results) for pair in pairs]
    for row in rows:
        shared_state(row, rows)
    good = [(row["source"], row["target"]) for row in rows if row["state"] in ("ok", "wrong-data")]
    return {
        "gpus": bdfs,
        "pairs": rows,
        "all": _all(libraries, make_cuda, good, options, until),
        "seconds": round(time.monotonic() - begin, 2),
    }


def name_of(pair: tuple[int, int]) -> str:
    return f"{pair[0]}-{pair[1]}"


def pair_steps(pair: tuple[int, int], pairs: list[tuple[int, int]], options: Any, allowed: bool) -> list[Step]:
    """Return the steps of one ordered pair; those for both directions go with the first of the two."""
    level, group = options.p2p, name_of(pair)
    deadline = INJECTED_DEADLINE if options.inject == "hang" else STEP_DEADLINE[level]
    window = BUSY_WINDOW if options.while_busy else None
    make: dict[str, Any] = {
        "access": partial(access, pair=pair),
        "staged": lambda bench: p2p_times.staged(bench, *pair, level),
        "data": lambda bench: p2p_data.data(bench, *pair, level, window),
        "times": lambda bench: p2p_times.times(bench, *pair, level),
        "ping-pong": lambda bench: p2p_times.ping_pong(bench, *pair),
        "both": lambda bench: p2p_times.both_ways(bench, *pair, peers=True),
        "staged-both": lambda bench: p2p_times.both_ways(bench, *pair, peers=False),
    }
    once = (pair[1], pair[0]) not in pairs or pair[0] < pair[1]
    names = [name for name in ORDER if once or name not in ("ping-pong", "both", "staged-both")]
    if not allowed:
        names = [name for name in names if name.startswith("staged") or name == "access"]
    # The control goes before the access step in a group of its own: a refusal does not end it.
    return [
        Step(f"{group}/{name}", "" if name.startswith("staged") else group, deadline, make[name])
        for name in sorted(names, key=lambda name: not name.startswith("staged"))
    ]


def access(bench: Bench, pair: tuple[int, int]) -> dict[str, Any]:
    """What the driver says and does when the one asks for the other's memory; nothing is written."""
    source, target = pair
    bench.open(source, target)
    can = bench.cuda.can_access(source, target)
    facts = {name: attempt(partial(bench.cuda.p2p_attribute, name, source, target)) for name in ATTRIBUTES}
    if not can:
        return {"state": "refused", "reason": "cuDeviceCanAccessPeer says no", "can_access": False, "attributes": facts}
    done = attempt(partial(bench.cuda.enable_peer, source, target))
    if isinstance(done, dict):
        return {"state": "refused", "reason": done["error"], "can_access": True, "attributes": facts}
    bench.cuda.disable_peer(source, target)
    return {"state": "ok", "can_access": True, "attributes": facts}


def _row(
    pair: tuple[int, int],
    pairs: list[tuple[int, int]],
    bdfs: list[str],
    nvlink: bool,
    danger: str | None,
    options: Any,
    results: dict[str, Any],
) -> dict[str, Any]:
    steps = {name: results.get(f"{name_of(pair)}/{name}") for name in ORDER}
    if (pair[1], pair[0]) in pairs:
        for name in ("ping-pong", "both", "staged-both"):
            steps[name] = steps[name] or results.get(f"{pair[1]}-{pair[0]}/{name}")
    if danger and not options.accept_risk:
        steps["data"] = {"state": "skipped", "reason": f"{danger}; --accept-risk writes all the same"}
    state, at = pair_state(steps)
    return {
        "source": pair[0],
        "target": pair[1],
        "source_bdf": bdfs[pair[0]],
        "target_bdf": bdfs[pair[1]],
        "nvlink": nvlink,
        "risk": danger,
        "state": state,
        "at": at,
        **{name.replace("-", "_"): step for name, step in steps.items() if step is not None},
    }


def pair_state(steps: dict[str, Any]) -> tuple[str, str | None]:
    """The worst state of a pair's own steps and the step it comes from; ``ok`` only after data was right."""
    own = [(name, steps[name]) for name in ("access", "data", "times") if steps.get(name)]
    for bad in PENALTY:
        for name, step in own:
            if step["state"] == bad:
                return bad, name
    return ("ok", None) if (steps.get("data") or {}).get("state") == "ok" else ("skipped", "data")


def shared_state(row: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Let a bad end of what both directions share count, unless the other direction alone explains it."""
    other = next((each for each in rows if (each["source"], each["target"]) == (row["target"], row["source"])), None)
    if row["state"] != "ok" or (other is not None and other["state"] != "ok" and other["at"] not in SHARED_STEPS):
        return
    for name in SHARED_STEPS:
        state = row.get(name, {}).get("state")
        if state in SHARED:
            row["state"], row["at"] = SHARED[state], name
            return


def _all(libraries: Any, make_cuda: Any, pairs: list[tuple[int, int]], options: Any, until: float) -> dict[str, Any]:
    if len(pairs) < 2:
        return {"state": "skipped", "reason": f"{len(pairs)} pairs work one by one"}
    step = Step("all", "", STEP_DEADLINE[options.p2p], lambda bench: p2p_all.all_at_once(bench, pairs, options.p2p))
    result: dict[str, Any] = drive(libraries.start, make_cuda, [step], until)["all"]
    return result
