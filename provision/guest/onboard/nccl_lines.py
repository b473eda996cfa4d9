"""What NCCL's own log says about a run: transports, limits and warnings, without the thousands of lines.

Sources: NCCL's src/transport/p2p.cc, shm.cc and net.cc (``via`` lines), src/graph/paths.cc, src/enqueue.cc.
"""

from __future__ import annotations

import re
from typing import Any

VIA = re.compile(
    r"Channel (\d+)(?:/\d+)? : (\d+)\[\w+\] -> (\d+)\[\w+\](?: \[(send|receive)\])? via (\S+(?: pointer)?)"
)
CHOICE = re.compile(r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+)")
DIRECT = re.compile(r"Check P2P Type isAllDirectP2p (\d) directMode (\d)(?: isAllCudaP2p (\d))?")
CHANNELS = re.compile(r"(\d+) coll channels")
SETTING = re.compile(r"(NCCL_\w+) set by environment to (.+?)\.?$")
ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
PROTOCOLS = ("LL", "LL128", "SIMPLE")
KEPT = ("P2P is disabled between", "Could not enable P2P", "Failed to", "unhandled cuda error", "ncclSystemError")
WARNING = "NCCL WARN"
AT_MOST = 40
LONGEST = 400


class LogDigest:
    """Takes a log in pieces of bytes, as they come out of the ranks' pipes."""

    def __init__(self) -> None:
        self._rest: dict[int, bytes] = {}
        self._via: dict[tuple[int, int, str], int] = {}
        self._choices: dict[tuple[str, int], str] = {}
        self._answer: dict[str, Any] = {"direct": None, "channels": None, "settings": {}, "warnings": [], "notes": []}

    def feed(self, source: int, data: bytes) -> None:
        """Take bytes that the rank ``source`` wrote."""
        lines = (self._rest.get(source, b"") + data).split(b"\n")
        self._rest[source] = lines.pop()[-4096:]
        for line in lines:
            self._line(line.decode("utf-8", "replace").rstrip("\r"))

    def answer(self) -> dict[str, Any]:
        """Return transports by ordered pair of ranks, choices of algorithm, and what else counts."""
        for rest in self._rest.values():
            self._line(rest.decode("utf-8", "replace"))
        self._rest.clear()
        via = [
            {"source": source, "target": target, "via": text, "channels": number}
            for (source, target, text), number in sorted(self._via.items())
        ]
        choices = [
            {"collective": name, "bytes": size, "choice": choice}
            for (name, size), choice in sorted(self._choices.items())
        ]
        return {"transports": via, "choices": choices, **self._answer}

    def _line(self, line: str) -> None:
        if " via " in line:
            self._transport(line)
        elif "-> Algo" in line:
            self._choice(line)
        elif WARNING in line:
            self._keep("warnings", line)
        elif any(words in line for words in KEPT):
            self._keep("notes", line)
        else:
            self._facts(line)

    def _transport(self, line: str) -> None:
        match = VIA.search(line)
        if match is None or match[4] == "receive":
            return
        key = (int(match[2]), int(match[3]), match[5])
        self._via[key] = self._via.get(key, 0) + 1

    def _choice(self, line: str) -> None:
        match = CHOICE.search(line)
        if match is None:
            return
        algorithm, protocol = _name(match[3], ALGORITHMS), _name(match[4], PROTOCOLS)
        self._choices[(match[1], int(match[2]))] = f"{algorithm}/{protocol}".upper()

    def _facts(self, line: str) -> None:
        direct = DIRECT.search(line)
        if direct is not None:
            self._answer["direct"] = {"all_direct": direct[1] == "1", "all_cuda": direct[3] and direct[3] == "1"}
        channels = CHANNELS.search(line)
        if channels is not None:
            self._answer["channels"] = int(channels[1])
        setting = SETTING.search(line)
        if setting is not None:
            self._answer["settings"][setting[1]] = setting[2]

    def _keep(self, key: str, line: str) -> None:
        at = line.find("NCCL ")
        text = line[max(at, 0) :][:LONGEST]
        if text not in self._answer[key] and len(self._answer[key]) < AT_MOST:
            self._answer[key].append(text)


def _name(word: str, names: tuple[str, ...]) -> str:
    """Older versions print the number of the algorithm and of the protocol."""
    if not word.isdigit():
        return word
    return names[int(word)] if int(word) < len(names) else word
