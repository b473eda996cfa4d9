"""What the program is asked to do."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

LEVELS = ("quick", "full")
INJECTIONS = ("private-copy", "hang")
PATH_STATES = ("ok", "clear", "unknown")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Read the arguments; ends the process with status 2 on one that is not known."""
    parser = argparse.ArgumentParser(
        prog="probe", description="Say what this guest and its GPUs are; one line of JSON on standard output."
    )
    parser.add_argument("--p2p", choices=LEVELS, help="measure every ordered pair of GPUs")
    parser.add_argument("--nccl", choices=LEVELS, help="run collectives with the server's own NCCL")
    parser.add_argument("--nccl-env", type=_json_object, default={}, help="JSON: environment of a further NCCL run")
    parser.add_argument("--nccl-options", type=_json_object, default={}, help="JSON: further options of that ladder")
    parser.add_argument("--deadline", type=float, metavar="S", help="seconds after which no new step begins")
    parser.add_argument(
        "--accept-risk", action="store_true", help="write to peers even where the host's path is unsafe"
    )
    parser.add_argument("--while-busy", action="store_true", help="measure although other processes use the GPUs")
    parser.add_argument("--pairs", type=pairs, help="ordered pairs by number, 0-1,1-0; all without it")
    parser.add_argument("--host-paths", type=host_paths, default={}, help="JSON: 'BDF BDF' to ok, clear or unknown")
    parser.add_argument("--inject", choices=INJECTIONS, help="test aid: behave as with this fault")
    return parser.parse_args(argv)


def pairs(text: str) -> list[tuple[int, int]]:
    """Read ``0-1,1-0``."""
    found = []
    for part in text.split(","):
        first, dash, second = part.strip().partition("-")
        if not dash or not (first.isdigit() and second.isdigit()) or int(first) == int(second):
            raise argparse.ArgumentTypeError(f"{part!r} is not a pair such as 0-1")
        found.append((int(first), int(second)))
    return list(dict.fromkeys(found))


def host_paths(text: str) -> dict[str, str]:
    """Read the host's judgement for each ordered pair of guest addresses, ``{"0000:01:00.0 0000:02:00.0": "ok"}``.

    ``ok``: every port on the way redirects requests upstream; ``clear``: one does not; ``unknown``.
    """
    data = _json_object(text)
    for key, state in data.items():
        if len(key.split()) != 2 or state not in PATH_STATES:
            raise argparse.ArgumentTypeError(
                f"{key!r}: {state!r} is none of {', '.join(PATH_STATES)} for two addresses"
            )
    return {" ".join(key.lower().split()): state for key, state in data.items()}


def _json_object(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from error
    if not isinstance(data, dict):
        raise argparse.ArgumentTypeError("not a JSON object")
    return data
