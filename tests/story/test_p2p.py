"""Whether a guest's GPUs reach each other: every verdict and every fault, through the shipped probe."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from provision.lab.guest_faults import GUEST_FAULTS, spoil

pytestmark = pytest.mark.story

EPYC = "epyc-8x-rtxpro6000"
RECORD = "var/lib/pvectl/p2p.json"
CLIQUE = "x-nv-gpudirect-clique"


def proving(host: Any, name: str = "proving.yaml") -> str:
    return str(host.inventory(lambda document: document["policies"].update(p2p="prove"), name))


def up(host: Any) -> None:
    host.wait(lambda: 100 in host.lab.lab.guests.running)


def applied(host: Any, inventory: str) -> Any:
    answer = host.call("apply", "-i", inventory, "--yes", "--reboot", "--stop-guests").must(0, " done: ")
    up(host)
    return answer


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory, lab_host: Any) -> Iterator[tuple[Any, str]]:
    """One lab, brought to a plan with cliques; each test gives its guest a fault of its own."""
    from provision.lab.supervisor import running

    with running(EPYC, (), boot_delay=0.05) as lab:
        home: Path = tmp_path_factory.mktemp("p2p")
        with contextlib.closing(lab_host(lab, home)) as host:
            inventory = proving(host)
            applied(host, inventory)
            yield host, inventory


@pytest.fixture
def lab(proved: tuple[Any, str]) -> tuple[Any, str]:
    """The lab with a guest as new, and without a verdict."""
    host, inventory = proved
    host.lab.lab.guests.build(100, host.lab.machine.guests[100])
    (host.root / RECORD).unlink(missing_ok=True)
    return host, inventory


def broken(host: Any, fault: str) -> None:
    spoil(host.lab.lab.site.guest_root(100), [fault])


def asked(lab: tuple[Any, str], code: int, *words: str) -> dict[str, Any]:
    """Return the report of ``pvectl p2p``; as text it says ``words``."""
    host, inventory = lab
    answer = host.call("p2p", "100", "-i", inventory, "--output", "json", *words)
    data: dict[str, Any] = json.loads(answer.must(code).out)["data"]
    return data


def verdicts(report: dict[str, Any]) -> dict[tuple[int, int], str]:
    return {(pair["source"], pair["target"]): pair["verdict"] for pair in report["pairs"]}


def records(host: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((host.root / RECORD).read_text())["data"]["vms"]["100"]
    return found


def verified(lab: tuple[Any, str], code: int) -> dict[str, dict[str, str]]:
    host, inventory = lab
    answer = host.call("verify", "-i", inventory, "--output", "json").must(code)
    return {result["check"]: result["judgement"] for result in json.loads(answer.out)["data"]["results"]}


# --- it works


def test_cliques_are_proven_and_the_verdict_is_kept_on_the_host(lab: tuple[Any, str]) -> None:
    host, inventory = lab
    report = asked(lab, 0)
    assert set(verdicts(report).values()) == {"PROVEN"}
    assert len(report["pairs"]) == 56
    assert [(each["clique"], each["verdict"]) for each in report["sets"]] == [(0, "PROVEN")]
    assert [(each["name"], each["value"]) for each in report["advice"]] == [("NCCL_P2P_LEVEL", "SYS")]
    (record,) = records(host)
    assert (record["verdict"], record["digest"]) == ("PROVEN", _digest(record))
    assert (host.root / RECORD).stat().st_mode & 0o777 == 0o600
    assert verified(lab, 0)["guest-p2p"]["state"] == "pass"
    assert len(records(host)) == 1
    text = host.call("p2p", "100", "-i", inventory, "--pairs", "0-1,1-0")
    text.must(8, "GRANTED_UNPROVEN", "asking", "s at most", "NCCL_P2P_DISABLE=1")
    assert records(host)[0]["verdict"] == "PROVEN", "a look at two pairs takes no proof back"


def _digest(record: dict[str, Any]) -> str:
    from provision.guest.fingerprint import Fingerprint

    return Fingerprint.model_validate(record["fingerprint"]).digest


def test_a_page_and_settings_of_a_file(lab: tuple[Any, str]) -> None:
    host, _inventory = lab
    (host.home / "nccl.env").write_text("# tried before\nexport NCCL_P2P_LEVEL=PHB\n")
    report = asked(lab, 0, "--nccl-env", "nccl.env", "--html", "p2p.html")
    assert next(run["env"] for run in report["nccl"]["runs"] if run["setting"] == "given") == {"NCCL_P2P_LEVEL": "PHB"}
    assert "<html" in (host.home / "p2p.html").read_text()


# --- faults


ROWS = (
    ("guest-mirror", 7, "WRONG_DATA", "a mirror", "fail"),
    ("guest-wrong-data", 7, "WRONG_DATA", "data is changed", "fail"),
    ("guest-hang", 7, "HANG", "a transfer hung", "fail"),
    ("guest-collective-hang", 7, "HANG", "p2p-on over 2 GPUs", "fail"),
    ("guest-gpu-lost", 8, "UNKNOWN", "7 of 8 GPUs on level NVML", "undecided"),
    ("guest-closed-module", 8, "UNKNOWN", "0 of 8 GPUs on level driver", "undecided"),
    ("guest-wpr2", 8, "UNKNOWN", "7 of 8 GPUs on level driver", "undecided"),
    ("guest-bar-missing", 8, "UNKNOWN", "7 of 8 GPUs on level BAR", "undecided"),
    ("guest-hmm", 8, "UNKNOWN", "0 of 8 GPUs on level CUDA", "undecided"),
    ("guest-busy", 8, "GRANTED_UNPROVEN", "other processes use GPU 0: 4242", "undecided"),
    ("guest-no-nccl", 8, "GRANTED_UNPROVEN", "no libnccl.so was found", "undecided"),
)
QUICK = ("guest-mirror",)
"""The others are for the long run."""


@pytest.mark.parametrize(
    ("fault", "code", "verdict", "word", "judged"),
    [pytest.param(*row, marks=() if row[0] in QUICK else pytest.mark.laws) for row in ROWS],
)
def test_a_fault_has_its_verdict_and_its_exit_code(
    lab: tuple[Any, str], fault: str, code: int, verdict: str, word: str, judged: str
) -> None:
    host, _inventory = lab
    broken(host, fault)
    report = asked(lab, code)
    assert report["verdict"] == verdict
    assert word in report["reason"]
    assert report["remedy"]
    advice = report["advice"]
    if verdict in ("WRONG_DATA", "HANG", "GRANTED_UNPROVEN"):
        assert (advice[0]["name"], advice[0]["value"]) == ("NCCL_P2P_DISABLE", "1")
    judgement = verified(lab, 7 if judged == "fail" or "level" in word else 8)["guest-p2p"]
    assert judgement["state"] == judged
    assert word in judgement["text"]


def test_every_fault_of_a_guest_is_told_here() -> None:
    assert {row[0] for row in ROWS} == set(GUEST_FAULTS)


@pytest.mark.laws
@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("guest-gpu-lost", "Xid (PCI:0000:08:00.0): 79"),
        ("guest-closed-module", "requires use of the NVIDIA open kernel modules"),
        ("guest-wpr2", "unexpected WPR2 already up"),
        ("guest-bar-missing", "BAR1 is 0M @ 0x0"),
        ("guest-hmm", "request_free_mem_region() err -34"),
    ],
)
def test_the_guest_s_own_words_stand_beside_the_level(lab: tuple[Any, str], fault: str, line: str) -> None:
    host, inventory = lab
    broken(host, fault)
    host.call("p2p", "100", "-i", inventory).must(8, "The guest's kernel log about the GPUs:", line, "hint: ")


@pytest.mark.laws
def test_one_bad_pair_leaves_the_others_their_figures(lab: tuple[Any, str]) -> None:
    host, _inventory = lab
    broken(host, "guest-wrong-data")
    found = verdicts(asked(lab, 7))
    assert [pair for pair, verdict in found.items() if verdict == "WRONG_DATA"] == [(0, 1)]
    assert set(found.values()) == {"WRONG_DATA", "GRANTED_UNPROVEN"}


# --- what follows


@pytest.mark.laws
def test_after_a_failure_the_plan_takes_the_clique_away_and_does_not_offer_it_again(on_lab: Any) -> None:
    host = on_lab(EPYC, "guest-mirror")
    inventory = proving(host)
    applied(host, inventory)
    assert CLIQUE in _config(host)
    assert verified((host, inventory), 7)["guest-p2p"]["state"] == "fail"
    host.call("plan", "-i", inventory).must(0, "WRONG_DATA", "no clique for", "is a new chance")
    applied(host, inventory)
    assert CLIQUE not in _config(host)
    host.call("plan", "-i", inventory, "--detailed-exitcode").must(0)
    judged = verified((host, inventory), 8)["guest-p2p"]
    assert "WRONG_DATA was recorded" in judged["text"]
    assert "set policies.p2p: off" in judged["hint"]
    _upgrade(host)
    asked((host, inventory), 8)
    host.call("plan", "-i", inventory, "--detailed-exitcode").must(2, CLIQUE)


def _config(host: Any) -> str:
    return str((host.root / "etc/pve/nodes/pve1/qemu-server/100.conf").read_text())


def _upgrade(host: Any) -> None:
    """Another driver in the guest, without the fault."""
    from provision.lab import breakage

    breakage.forget(host.root)
    guest = host.lab.machine.guests[100]
    newer = guest.model_copy(update={"driver": guest.driver.model_copy(update={"version": "600.10.01"})})
    host.lab.lab.guests.build(100, newer)


@pytest.mark.laws
def test_without_cliques_nothing_is_granted_which_policy_off_wants(on_lab: Any) -> None:
    host = on_lab()
    plain = str(host.lab.inventory)
    applied(host, plain)
    report = asked((host, plain), 0)
    assert set(verdicts(report).values()) == {"NOT_GRANTED"}
    assert "x-nv-gpudirect-clique" in report["pairs"][0]["remedy"]
    assert report["pairs"][0]["control_transports"] == ["SHM/direct/direct"]
    assert report["advice"] == []
    assert report["verdict"] == "NOT_GRANTED"
    answer = host.call("verify", "--output", "json").must(0)
    judged = {result["check"]: result["judgement"] for result in json.loads(answer.out)["data"]["results"]}
    assert judged["guest-p2p"]["state"] == "pass"
    _by_its_own_address(host)


def _by_its_own_address(host: Any) -> None:
    """Without its host the ways between its GPUs are not known, and nothing is recorded."""
    import yaml

    before = (host.root / RECORD).read_bytes()
    wish = yaml.safe_load(host.lab.inventory.read_text())["hosts"]["pve1"]["vms"][100]["guest"]
    assert wish["address"]
    host.call("p2p", "999").must(64, "no inventory has this VM")
    host.call("p2p", "100", "--quick", "--full").must(64, "both --quick and --full")
    host.call("p2p", "100", "--pairs", "0-0").must(64, "--pairs 0-0")
    (host.home / "bad.env").write_text("LD_PRELOAD=x\n")
    host.call("p2p", "100", "--nccl-env", "bad.env").must(1, "line 1 is no setting of NCCL")
    assert (host.root / RECORD).read_bytes() == before
