"""All pairs at once: what is left for each when every GPU writes to every other, and whether the data is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from provision.guest.onboard.bench import MIB, Bench
from provision.guest.onboard.p2p_data import OWNER, WRITER, first_wrong
from provision.guest.onboard.p2p_times import rate
from provision.guest.onboard.pattern import seed_of

SIZE = 32 * MIB
COUNT = {"quick": 32, "full": 128}
WORDS = SIZE // 4


def all_at_once(bench: Bench, pairs: Sequence[tuple[int, int]], level: str) -> dict[str, Any]:
    """Copy over every pair at the same time.  ``pairs`` are those that work one by one."""
    flows = _prepare(bench, pairs)
    first = pairs[0][0]
    _run(bench, flows, first, COUNT[level])
    opened = bench.cuda.host_word(bench.flag + 8) == 1
    rows = [_row(bench, flow, COUNT[level]) for flow in flows]
    for flow in flows:
        _release(bench, flow)
    longest = max(row["us"] for row in rows)
    return {
        "state": "wrong-data" if any(row["wrong_words"] for row in rows) else "ok",
        "bytes": SIZE,
        "count": COUNT[level],
        "method": "gate" if opened else "host",
        "rows": rows,
        "gb_per_s": rate(SIZE * len(rows), longest),
    }


def _prepare(bench: Bench, pairs: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    flows = []
    for source, target in pairs:
        bench.peers(source, target, True)
        flow = {
            "pair": (source, target),
            "here": bench.cuda.alloc(source, SIZE),
            "there": bench.cuda.alloc(target, SIZE),
            "stream": bench.cuda.stream(source),
            "start": bench.cuda.event(source),
            "stop": bench.cuda.event(source),
            "seeds": {OWNER: seed_of(source, target, 9), WRITER: seed_of(source, target, 10)},
        }
        bench.fill(target, flow["there"], WORDS, flow["seeds"][OWNER])
        bench.fill(source, flow["here"], WORDS, flow["seeds"][WRITER])
        flows.append(flow)
    return flows


def _run(bench: Bench, flows: list[dict[str, Any]], first: int, count: int) -> None:
    """Every stream waits for one gate."""
    cuda = bench.cuda
    go = bench.event(first, "first")
    bench.close_gate(first)
    cuda.record(go, bench.streams[first])
    for flow in flows:
        cuda.wait(flow["stream"], go)
        cuda.record(flow["start"], flow["stream"])
    for _ in range(count):
        for flow in flows:
            source, target = flow["pair"]
            cuda.copy(flow["stream"], (target, flow["there"]), (source, flow["here"]), SIZE)
    for flow in flows:
        cuda.record(flow["stop"], flow["stream"])
    bench.open_gate()
    bench.sync(first)
    for flow in flows:
        cuda.synchronize(flow["stream"])


def _row(bench: Bench, flow: dict[str, Any], count: int) -> dict[str, Any]:
    source, target = flow["pair"]
    us = float(bench.cuda.elapsed_us(flow["start"], flow["stop"])) / count
    wrong, at, found = bench.check(target, flow["there"], WORDS, flow["seeds"][WRITER])
    details = first_wrong(at, found, WORDS, flow["seeds"]) if wrong else {}
    row = {"source": source, "target": target, "us": round(us, 3), "gb_per_s": rate(SIZE, us)}
    return {**row, "wrong_words": wrong, **details}


def _release(bench: Bench, flow: dict[str, Any]) -> None:
    source, target = flow["pair"]
    bench.cuda.free(source, flow["here"])
    bench.cuda.free(target, flow["there"])
    for name in ("start", "stop", "stream"):
        bench.cuda.drop(flow[name])
