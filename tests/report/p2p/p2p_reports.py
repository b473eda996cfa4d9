"""Reports to draw: of simulated GPUs through the probe's own ladder, and larger ones that are made up."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from provision.guest.facts import parse_probe
from provision.guest.fingerprint import HostPart
from provision.guest.nccl import Advice
from provision.guest.onboard import main
from provision.guest.verdict import judge
from provision.guest.verdict_model import P2pReport, PairFigures, PairVerdict, ReportGpu, SetVerdict, Timing
from provision.lab.guest_libraries import RecordedLibraries

DRIVER = "595.58.03"
CREATED = "2026-01-02T03:04:05Z"
NAME = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
HOST = HostPart(
    kernel="6.14.8-2-pve",
    qemu="10.0.2",
    options=("amd_iommu=on",),
    gpus=("10de:2bb5 1",),
    cpu="host",
    machine="q35",
    cliques=("hostpci0=0",),
)
COLLECTIVES = {"all_reduce": 2.0, "all_gather": 1.0, "send_receive": 1.0}
SETTINGS: Mapping[str, tuple[dict[str, str], str, float, float]] = {
    "p2p-off": ({"NCCL_P2P_DISABLE": "1"}, "SHM/direct/direct", 9.0, 11.0),
    "p2p-on": ({"NCCL_P2P_DISABLE": "0"}, "P2P/CUMEM", 7.0, 44.0),
    "p2p-any-distance": ({"NCCL_P2P_DISABLE": "0", "NCCL_P2P_LEVEL": "SYS"}, "P2P/CUMEM", 7.2, 43.0),
    "shm-copy-engine": ({"NCCL_P2P_DISABLE": "1", "NCCL_SHM_USE_CUDA_MEMCPY": "1"}, "SHM/CE/direct", 12.0, 14.0),
}


def bdf(index: int) -> str:
    return f"0000:{index + 1:02x}:00.0"


def answers(gpus: int, route: str, faults: Mapping[str, str]) -> str:
    """Return what the simulated libraries say."""
    rows = [
        {
            "index": index,
            "bdf": bdf(index),
            "name": NAME,
            "uuid": f"GPU-00000000-0000-0000-0000-{index:012d}",
            "vbios": "98.02.55.00.01",
            "gsp_version": DRIVER,
            "gsp_enabled": True,
            "bar1_bytes": 128 << 30,
            "memory_bytes": 97887 << 20,
            "virtualization_mode": 1,
            "mig": False,
        }
        for index in range(gpus)
    ]
    status = [[int(faults.get(f"{a}-{b}") == "refused") * 5 for b in range(gpus)] for a in range(gpus)]
    pairs = {pair: fault for pair, fault in faults.items() if fault != "refused"}
    said = {"driver": DRIVER, "gpus": rows, "p2p": status, "route": route, "pairs": pairs, "cpuid": "KVMKVMKVM"}
    return json.dumps(said)


@cache
def measured(gpus: int, level: str, root: Path, route: str = "pcie", faults: tuple[tuple[str, str], ...] = ()) -> Any:
    """Return the probe's answer of simulated GPUs."""
    out = io.StringIO()
    libraries = RecordedLibraries(answers(gpus, route, dict(faults)))
    words = ("--p2p", level, "--accept-risk") if level else ()
    main.main(words, out, str(root), libraries)
    answer = json.loads(out.getvalue())
    answer["pci"] = [
        {
            "bdf": bdf(index),
            "device": "0x2bb5",
            "driver": "nvidia",
            "bar_bytes": [64 << 20, 0, 128 << 30, 0, 32 << 20, 0],
            "clique": 0,
        }
        for index in range(gpus)
    ]
    answer["virtualization"]["signature"] = "KVMKVMKVM"
    answer["module"].update(nvidia_loaded=True, open=True, version=DRIVER)
    answer["proc"] = [
        {"bdf": bdf(index), "model": NAME, "firmware": DRIVER, "uuid": None, "excluded": "No"} for index in range(gpus)
    ]
    answer["kernel"] = "6.8.0-60-generic"
    answer["kernel_log"] = {"source": "/dev/kmsg", "lines": ["[    1.0] nvidia: loading out-of-tree"], "left_out": 0}
    return answer


def nccl(gpus: int, *, wrong: bool = False) -> dict[str, Any]:
    """Return an answer of the NCCL ladder that is made up: times are a line in bytes and hops."""
    counts = [count for count in (2, 4, 8, 16) if count <= gpus]
    runs = [_run(setting, count, traced) for setting in SETTINGS for count in counts for traced in (False, True)]
    if wrong:
        bad = next(run for run in runs if run["setting"] == "p2p-on")
        seen = {"rank": 1, "element": 7, "expected": 3.0, "got": "1.0", "wrong": 512}
        bad["steps"][0]["wrong"] = [seen]
    library = {"path": "/opt/env/libnccl.so.2", "found": "site-packages", "pids": [], "version": "2.28.9"}
    return {
        "mode": "full",
        "state": "ok",
        "reason": "",
        "libraries": [library],
        "library": library,
        "gpus": gpus,
        "inherited": {},
        "configuration_files": [],
        "fault": None,
        "runs": runs,
        "seconds": 100.0,
    }


def _run(setting: str, count: int, traced: bool) -> dict[str, Any]:
    env, via, hop, rate = SETTINGS[setting]
    steps = []
    for collective, factor in COLLECTIVES.items():
        for power in range(12, 29, 2):
            size = 1 << power
            us = 5 + hop * (count - 1) * factor / 2 + size / rate / 1e3 * factor * (count - 1) / count
            bus = size / us / 1e3 * factor * (count - 1) / count
            times = {"us": None, "algorithm_gbs": None, "bus_gbs": None}
            if not traced:
                times = {"us": round(us, 3), "algorithm_gbs": round(size / us / 1e3, 4), "bus_gbs": round(bus, 4)}
            steps.append({"collective": collective, "bytes": size, "checked": count, "wrong": [], **times})
    ring = [(rank, (rank + step) % count) for rank in range(count) for step in (1, count - 1)]
    transports = [{"source": a, "target": b, "via": via, "channels": 4} for a, b in dict.fromkeys(ring)]
    choices = [{"collective": "AllReduce", "bytes": 4096, "choice": "RING/LL"}] if traced else []
    log = {"transports": transports, "choices": choices, "direct": None, "channels": 4, "settings": env}
    return {
        "setting": setting,
        "env": env,
        "count": count,
        "traced": traced,
        "state": "ok",
        "reason": "",
        "steps": steps,
        "ranks": [{"rank": rank, "at": "end", "error": None, "ending": "exit 0"} for rank in range(count)],
        "log": {**log, "warnings": [], "notes": []},
        "seconds": 5.0,
    }


def simulated(
    gpus: int,
    root: Path,
    *,
    level: str = "quick",
    route: str = "pcie",
    faults: Mapping[str, str] | None = None,
    with_nccl: bool = True,
) -> P2pReport:
    """Return the report on simulated GPUs; ``faults`` names one for each ordered pair ``0-1``."""
    answer = dict(measured(gpus, level, root, route, tuple(sorted((faults or {}).items()))))
    if with_nccl:
        answer["nccl"] = nccl(gpus)
    return judge(parse_probe(json.dumps(answer), 100), HOST, created=CREATED, guest="llm", policy="prove")


def large(gpus: int, root: Path) -> P2pReport:
    """Return a report of many GPUs on two sockets: what crosses between them is slower, and one pair is far off."""
    base = simulated(2, root)
    rows = tuple(
        ReportGpu(
            index=index,
            bdf=bdf(index),
            name=NAME,
            uuid=f"GPU-00000000-0000-0000-0000-{index:012d}",
            vbios="98.02.55.00.01",
            ids="10de:2bb5",
            clique=index // 8,
        )
        for index in range(gpus)
    )
    pairs = tuple(_pair(one, two) for one in range(gpus) for two in range(gpus) if one != two)
    sets = tuple(_set(tuple(range(first, min(first + 8, gpus)))) for first in range(0, gpus, 8))
    answer = type(base.nccl).model_validate(nccl(gpus)) if base.nccl else None
    update: dict[str, Any] = {
        "gpus": rows,
        "pairs": pairs,
        "sets": sets,
        "nccl": answer,
        "level": "full",
        "all_gb_per_s": 1234.5,
    }
    said = {"verdict": "HANG", "reason": "GPU 3 to 4: no answer in 15 s", "remedy": "keep NCCL_P2P_DISABLE=1"}
    update["advice"] = (Advice(name="NCCL_P2P_DISABLE", value="1", because="HANG: no answer in 15 s"),)
    return P2pReport.model_validate({**dict(base), **update, **said, "as_expected": False})


def _set(gpus: tuple[int, ...]) -> SetVerdict:
    verdict = "HANG" if 3 in gpus else "GRANTED_UNPROVEN"
    return SetVerdict(
        gpus=gpus,
        bdfs=tuple(map(bdf, gpus)),
        ids="10de:2bb5",
        clique=gpus[0] // 8,
        verdict=verdict,  # type: ignore[arg-type]
        reason="no collective over P2P was run",
        remedy="pvectl p2p with NCCL",
    )


def _pair(one: int, two: int) -> PairVerdict:
    far = one // 8 != two // 8
    slow = 0.4 if (one, two) == (2, 5) else 1.0
    verdict = "NOT_GRANTED" if far else "HANG" if (one, two) == (3, 4) else "GRANTED_UNPROVEN"
    figures = PairFigures(
        times=() if verdict != "GRANTED_UNPROVEN" else _times(one, two, slow),
        control=tuple(_timing("copy", "push", 4 << 2 * power, 15.0, 37.0) for power in range(0, 14, 2)),
        one_way_us=None if verdict != "GRANTED_UNPROVEN" else 0.75 + 0.01 * (one % 3),
        both_gb_per_s=None if verdict != "GRANTED_UNPROVEN" else 101.5,
        control_both_gb_per_s=63.2,
        all_gb_per_s=None if verdict != "GRANTED_UNPROVEN" else 11.5 + one % 4,
    )
    return PairVerdict(
        source=one,
        target=two,
        source_bdf=bdf(one),
        target_bdf=bdf(two),
        verdict=verdict,  # type: ignore[arg-type]
        reason={"HANG": "no answer in 15 s", "NOT_GRANTED": "NS: not of one clique (0 and 1)"}.get(
            verdict, "data arrived"
        ),
        link="PCIe",
        status={"read": "NS" if far else "OK", "write": "NS" if far else "OK", "pcie": "NS" if far else "OK"},
        transports=() if far else ("P2P/CUMEM",),
        control_transports=("SHM/direct/direct",),
        figures=figures,
        evidence=("data ended as hang",) if verdict == "HANG" else (),
    )


def _times(one: int, two: int, slow: float) -> tuple[Timing, ...]:
    rows = []
    for engine, least, rate in (("copy", 1.4, 53.0), ("sm", 2.0, 51.0)):
        for direction, factor in (("push", 1.0), ("pull", 0.9)):
            for count in (4, 64, 1024, 12288, 65536, 1 << 20, 16 << 20, 256 << 20):
                us = least + (one + two) % 5 * 0.05
                rows.append(_timing(engine, direction, count, us, rate * factor * slow))
    return tuple(rows)


def _timing(engine: str, direction: str, count: int, least: float, rate: float) -> Timing:
    us = least + count / rate / 1e3
    row = {"engine": engine, "direction": direction, "bytes": count, "us": us, "spread": (us, us), "count": 100}
    return Timing.model_validate({**row, "method": "gate", "gb_per_s": count / us / 1e3})
