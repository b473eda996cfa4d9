"""The report on P2P as text, the settings of a file, and the record on the host."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from provision.capture.model import Item
from provision.errors import PvectlError, StalePlan, Undecided
from provision.evidence import Unknown
from provision.guest.facts import parse_probe
from provision.guest.record import PLACE, parse_records, record_of
from provision.guest.verdict import judge
from provision.guest.verdict_model import P2pReport
from provision.remote.session import Read, RunResult
from provision.verify.p2p_measure import Wish, measure, read_environment
from provision.verify.p2p_store import store
from provision.verify.p2p_text import render

DATA = Path(__file__).resolve().parent.parent / "data" / "guest-h200x2"


def text_of(name: str = "p2p-quick") -> str:
    return (DATA / f"{name}.json").read_text("utf-8")


def report(name: str = "p2p-quick") -> P2pReport:
    facts = parse_probe(text_of(name), 100)
    return judge(facts, Unknown(unknown="not asked"), created="2026-01-02T03:04:05Z", guest="VM 100 on pve1")


# --- the text


def test_a_proof_stands_first_and_figures_that_are_alike_take_one_line() -> None:
    lines = render(report()).splitlines()
    assert lines[0] == "P2P between the GPUs of VM 100 on pve1: PROVEN"
    assert "Bandwidth by the copy engine, GB/s: 395 on all pairs" in lines
    assert "NCCL's environment: set nothing, its own choice is right here." in lines
    assert lines[-1] == "Next: pvectl verify"
    assert max(len(line) for line in lines) <= 100


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("p2p-private-copy", ("WRONG_DATA", "a mirror", "A fault was put in on purpose", "NCCL_P2P_DISABLE=1")),
        ("p2p-hang", ("HANG", "no answer in 8 s", "Do not use P2P in this guest")),
        ("nccl-wrong", ("UNKNOWN", "without P2P too", "VALUES WRONG")),
    ],
)
def test_what_went_wrong_is_said_with_its_words(name: str, words: tuple[str, ...]) -> None:
    text = render(report(name))
    assert [word for word in words if word not in text] == []


def test_figures_that_differ_stand_in_a_matrix() -> None:
    data = json.loads(text_of())
    data["p2p"]["pairs"][0]["ping_pong"]["one_way_us"] = 9.0
    facts = parse_probe(json.dumps(data), 100)
    text = render(judge(facts, Unknown(unknown="not asked"), created="", guest="g"))
    assert "Latency of a word from kernel to kernel, us:\n" in text
    assert "    9.00\n" in text


# --- the settings


def test_settings_of_nccl_are_read() -> None:
    text = '# a remark\n\nexport NCCL_P2P_LEVEL=SYS\nNCCL_ALGO="Ring" # why\n'
    assert read_environment(text, "f") == {"NCCL_P2P_LEVEL": "SYS", "NCCL_ALGO": "Ring"}


@pytest.mark.parametrize("line", ["LD_PRELOAD=/tmp/x.so", "NCCL_DEBUG", "rm -rf /", "NCCL_A B=1"])
def test_what_is_no_setting_of_nccl_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(PvectlError, match="line 2"):
        read_environment(f"NCCL_P2P_LEVEL=SYS\n{line}\n", "f")


# --- the measurement and the record


class Guest:
    """Answers the probe with these texts, one after the other, and notes its arguments."""

    target = "guest 100"
    host_key = ""
    euid = 0

    def __init__(self, *texts: str, rc: int = 0, stderr: bytes = b"") -> None:
        self.texts, self.rc, self.stderr = list(texts), rc, stderr
        self.asked: list[Sequence[str]] = []

    def python(self, _source: bytes, argv: Sequence[str] = (), *, stdin: bytes = b"", timeout: float = 0) -> RunResult:
        del stdin, timeout
        self.asked.append(argv)
        return RunResult(argv=("python3",), rc=self.rc, stdout=self.texts.pop(0).encode(), stderr=self.stderr)


def test_the_guest_is_told_which_ways_are_safe() -> None:
    guest, said = Guest(text_of(), text_of()), list[str]()
    wish = Wish("full", {"NCCL_ALGO": "Ring"}, accept_risk=True, while_busy=True, pairs="0-1")
    facts = measure(guest, 100, wish, lambda _facts: {"a b": "ok"}, said.append)  # type: ignore[arg-type]
    assert facts.p2p_measured is not None
    assert guest.asked[0] == ()
    words = list(guest.asked[1])
    assert words[: words.index("--host-paths") + 2] == [
        "--p2p",
        "full",
        "--nccl",
        "full",
        "--host-paths",
        '{"a b": "ok"}',
    ]
    assert {"--accept-risk", "--while-busy", "--nccl-env", "--pairs", "0-1"} <= set(words)
    assert [" s at most" in line or " s)" in line for line in said] == [True, True]


def test_a_guest_whose_cuda_does_not_start_is_asked_once() -> None:
    data = json.loads(text_of("p2p-hang"))
    data["cuda"] = {"state": "hang", "reason": "no answer in 60 s"}
    guest = Guest(json.dumps(data))
    measure(guest, 100, Wish(), lambda _facts: {}, lambda _text: None)  # type: ignore[arg-type]
    assert len(guest.asked) == 1


def test_a_probe_that_ends_badly_is_undecided() -> None:
    guest = Guest("", rc=1, stderr=b"Traceback\nMemoryError\n")
    with pytest.raises(Undecided, match="ended with 1: MemoryError"):
        measure(guest, 100, Wish(), lambda _facts: {}, lambda _text: None)  # type: ignore[arg-type]


class Host:
    """One file on a host."""

    target = "root@pve1"
    host_key = ""

    def __init__(self, data: bytes | None = None, *, euid: int = 0, stale: bool = False) -> None:
        self.data, self.euid, self.stale = data, euid, stale
        self.mode: int | None = None

    def read(self, wants: Sequence[Any], *, deadline: float = 60.0) -> list[Read]:
        del deadline
        state: Any = "absent" if self.data is None else "read"
        item = Item(subject="host", key=wants[0].pattern, kind="file", state=state)
        return [Read(item=item, data=self.data or b"")]

    def write(self, path: str, data: bytes, *, expect: str | None, mode: int | None = None, **_more: Any) -> None:
        assert path == PLACE
        assert (expect is None) == (self.data is None)
        if self.stale:
            raise StalePlan("Unable to write: it changed")
        self.data, self.mode = data, mode


def test_a_verdict_is_written_once_and_for_root_alone() -> None:
    host, record = Host(), record_of(report())
    assert record is not None
    assert store(host, 100, record) == ""  # type: ignore[arg-type]
    assert store(host, 101, record) == ""  # type: ignore[arg-type]
    assert host.mode == 0o600
    assert set(parse_records((host.data or b"").decode(), "f")) == {100, 101}


@pytest.mark.parametrize(
    ("host", "words"),
    [(Host(euid=1000), "needs root"), (Host(b"{"), "not as pvectl writes it"), (Host(stale=True), "it changed")],
)
def test_a_verdict_that_cannot_be_kept_is_said(host: Host, words: str) -> None:
    before, record = host.data, record_of(report())
    assert record is not None
    assert words in store(host, 100, record)  # type: ignore[arg-type]
    assert host.data == before
