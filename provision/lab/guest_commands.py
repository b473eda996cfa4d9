"""The commands of a simulated guest: ``nvidia-smi`` and the shipped probe; anything else is 127."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from provision.guest.bundle import probe_source
from provision.lab.commands import reading
from provision.lab.commands.answer import Answer, fail
from provision.lab.guest_tree import LIBRARIES
from provision.remote.bootstrap import unpack_program
from provision.verify.modules.carry import carried

PROBE_LIMIT = 300.0
START = "import sys; sys.path.insert(0, sys.argv[1]); from provision.lab.probe_child import main; main(*sys.argv[2:])"
STATUS = {0: "OK", 1: "CNS", 2: "GNS", 3: "TNS", 4: "DR", 5: "NS", 6: "U"}


def shipped_probe() -> bytes:
    return probe_source().encode()


async def run_probe(root: Path, program: bytes, words: Sequence[str] = ()) -> Answer:
    """Run a program with its arguments if it is the shipped probe, byte for byte."""
    source, _stdin = unpack_program(program)
    if hashlib.sha256(source).digest() != hashlib.sha256(shipped_probe()).digest():
        return fail("pvectl lab: python3 runs only the agent and the probe that pvectl ships", 126)
    package = str(Path(__file__).resolve().parents[2])
    argv = (sys.executable, "-I", "-S", "-c", START, package, str(root), str(root / LIBRARIES), *words)
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=root,
        env={"LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(source), PROBE_LIMIT)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Answer(process.returncode or 0, out.decode(), err.decode())


async def dispatch(root: Path, hostname: str, argv: tuple[str, ...], stdin: bytes) -> Answer:
    """Run one command of the guest: the probe on standard input or carried by its command line, or a plain one."""
    argv = reading.unwrapped(argv)
    if argv[:3] == ("python3", "-I", "-"):
        return await run_probe(root, stdin, argv[3:])
    if argv[:3] == reading.CARRIED and argv[3:4] == (carried(probe_source()),):
        return await run_probe(root, shipped_probe(), argv[4:])
    if reading.is_reader(argv):
        return reading.read(root, argv)
    return reading.cat(root, argv) if reading.reads_kernel(argv) else run(root, hostname, argv)


def run(root: Path, hostname: str, argv: Sequence[str]) -> Answer:
    """Run one plain command of the guest."""
    name = argv[0].rpartition("/")[2]
    if name == "nvidia-smi":
        return nvidia_smi(json.loads((root / LIBRARIES).read_text(encoding="utf-8")), argv[1:])
    kernel = (root / "proc/sys/kernel/osrelease").read_text(encoding="utf-8").strip()
    plain = {
        ("true",): "",
        ("hostname",): f"{hostname}\n",
        ("uname", "-r"): f"{kernel}\n",
        ("id", "-u"): "0\n",
    }
    if (name, *argv[1:]) in plain:
        return Answer(0, plain[(name, *argv[1:])])
    return Answer(127, "", f"{argv[0]}: command not found\n")


def nvidia_smi(answers: dict[str, Any], words: Sequence[str]) -> Answer:
    if answers["driver"] is None:
        return Answer(127, "", "nvidia-smi: command not found\n")
    gpus = answers["gpus"]
    if not gpus:
        return Answer(6, "No devices were found\n")
    if list(words) == ["-L"]:
        return Answer(0, "".join(f"GPU {gpu['index']}: {gpu['name']} (UUID: {gpu['uuid']})\n" for gpu in gpus))
    if list(words[:2]) == ["topo", "-m"]:
        return Answer(0, _topology(gpus))
    if list(words[:2]) == ["topo", "-p2p"]:
        return Answer(0, _p2p(answers))
    if list(words) == ["-q"]:
        return Answer(0, _query(answers))
    if not words:
        version, cuda = answers["driver"], answers["cuda_version"]
        return Answer(0, f"NVIDIA-SMI {version}  Driver Version: {version}  CUDA Version: {cuda}\n")
    return fail(f"Invalid combination of input arguments: {' '.join(words)}", 2)


def _heading(gpus: list[dict[str, Any]]) -> str:
    return "\t" + "\t".join(f"GPU{gpu['index']}" for gpu in gpus)


def _topology(gpus: list[dict[str, Any]]) -> str:
    text = _heading(gpus) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    for gpu in gpus:
        cells = ["X" if other is gpu else "PHB" for other in gpus]
        text += f"GPU{gpu['index']}\t" + "\t".join(f" {cell} " for cell in cells) + "\t\t\t\tN/A\n"
    return text


def _p2p(answers: dict[str, Any]) -> str:
    gpus = answers["gpus"]
    text = _heading(gpus) + "\n"
    for first, row in enumerate(answers["p2p"]):
        cells = ["X" if first == second else STATUS.get(status, "U") for second, status in enumerate(row)]
        text += f" GPU{first}\t" + "\t".join(cells) + "\n"
    return text


def _query(answers: dict[str, Any]) -> str:
    gpus = answers["gpus"]
    text = "\n==============NVSMI LOG==============\n\n"
    text += f"{'Driver Version':<50}: {answers['driver']}\n{'CUDA Version':<50}: {answers['cuda_version']}\n"
    text += f"\n{'Attached GPUs':<50}: {len(gpus)}\n"
    for gpu in gpus:
        rows = {
            "Product Name": gpu["name"],
            "GPU UUID": gpu["uuid"],
            "VBIOS Version": gpu["vbios"],
            "GSP Firmware Version": gpu["gsp_version"],
        }
        text += f"GPU {gpu['bdf'].upper().replace('0000:', '00000000:', 1)}\n"
        text += "".join(f"    {name:<46}: {value}\n" for name, value in rows.items())
        text += f"    GPU Virtualization Mode\n        {'Virtualization Mode':<42}: Pass-Through\n"
    return text
