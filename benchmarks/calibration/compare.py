"""Put the probe's figures beside an independent measurement: python3 compare.py PROBE.json CALIBRATION.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

WANTED = 10.0
"""Per cent."""
HOST_NOISE = 1 << 20
"""Staged copies below this are timed by the host's clock and take what the program's own calls take: 12 to 18 us,
and up to a third apart between two runs of one program.  They are shown and not counted."""
ENGINES = {("copy", "push"): "copy", ("sm", "push"): "sm_store", ("sm", "pull"): "sm_load"}


def probe_figures(answer: dict[str, Any], source: int, target: int) -> dict[tuple[str, int], float]:
    """Return microseconds by name and bytes for one ordered pair.

    Of staged copies the fastest batch counts, on both sides: the host's clock shows two speeds by turns.
    """
    pairs = answer["p2p"]["pairs"]
    pair = next(each for each in pairs if (each["source"], each["target"]) == (source, target))
    found: dict[tuple[str, int], float] = {}
    for row in pair.get("staged", {}).get("rows", []):
        found["staged", row["bytes"]] = row["spread"][0]
    for row in pair.get("times", {}).get("rows", []):
        name = ENGINES.get((row["engine"], row["direction"]))
        if name:
            found[name, row["bytes"]] = row["us"]
    if "us" in pair.get("both", {}):
        found["copy_both", pair["both"]["bytes"]] = pair["both"]["us"]
    if "one_way_us" in pair.get("ping_pong", {}):
        found["ping_pong_one_way", 4] = pair["ping_pong"]["one_way_us"]
    return found


def main(words: list[str]) -> int:
    """Print one line for each figure that both have.  Returns 1 where any differs by more than is wanted."""
    ours, others = (json.loads(Path(word).read_text(encoding="utf-8")) for word in words)
    figures = probe_figures(ours, others["from"], others["to"])
    print(
        f"{'figure':<20}{'bytes':>12}{'probe us':>12}{'other us':>12}{'probe GB/s':>12}{'other GB/s':>12}{'off by':>9}"
    )
    far = 0
    for row in others["figures"]:
        mine = figures.get((row["name"], row["bytes"]))
        if mine is None:
            continue
        off = (mine - row["us"]) / row["us"] * 100
        counts = row["name"] != "staged" or row["bytes"] >= HOST_NOISE
        far += counts and abs(off) > WANTED
        mark = "" if abs(off) <= WANTED else " !" if counts else " (not counted)"
        rates = (row["bytes"] / mine / 1e3, row["bytes"] / row["us"] / 1e3)
        print(
            f"{row['name']:<20}{row['bytes']:>12}{mine:>12.3f}{row['us']:>12.3f}"
            f"{rates[0]:>12.2f}{rates[1]:>12.2f}{off:>8.1f}%{mark}"
        )
    print(f"{far} differ by more than {WANTED:g} %")
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
