"""What a GPU guest can say about itself, as one line of JSON on standard output.

Every level is read even where an earlier one failed, because the first level at which the number of GPUs drops
names the fault.  Measuring between GPUs happens only when it is asked for.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from typing import Any

from provision.guest.onboard import (
    arguments,
    cuda_level,
    kernel_log,
    module_level,
    nccl_ladder,
    nvml_level,
    p2p_guard,
    p2p_ladder,
    pci_level,
)
from provision.guest.onboard.child import in_child, told
from provision.guest.onboard.errors import attempt
from provision.guest.onboard.files import Files
from provision.guest.onboard.libraries import Libraries

SCHEMA = "pvectl.probe/2"
LEVEL_DEADLINE = 60.0


def levels(files: Files, libraries: Any, module: dict[str, Any]) -> dict[str, Any]:
    """Return the levels as one dict."""
    virtualization = module_level.virtualization_facts(files)
    return {
        "schema": SCHEMA,
        "python": platform.python_version(),
        "kernel": files.line("/proc/sys/kernel/osrelease"),
        "boot_id": files.line("/proc/sys/kernel/random/boot_id"),
        "euid": os.geteuid(),
        "virtualization": {
            **virtualization,
            "signature": attempt(libraries.cpuid) if virtualization["cpu_flag"] else None,
        },
        "pci": pci_level.pci_gpus(files),
        "module": module,
        "proc": module_level.proc_gpus(files),
        "nvml": in_child(lambda: nvml_level.nvml_level(libraries), LEVEL_DEADLINE, libraries.start),
        "cuda": told(lambda say: cuda_level.cuda_level(libraries, say), LEVEL_DEADLINE, libraries.start),
        "kernel_log": kernel_log.kernel_log(files),
    }


def afterwards(answer: dict[str, Any], files: Files, libraries: Any) -> dict[str, Any]:
    """Return what the measurement left behind: new lines of the kernel's log; link and errors while still warm."""
    before, now = answer["kernel_log"], kernel_log.kernel_log(files)
    known = set(before.get("lines", ()))
    nvml = in_child(lambda: nvml_level.nvml_level(libraries), LEVEL_DEADLINE, libraries.start)
    kept = ("bdf", "link", "pcie_replays", "ecc_uncorrected", "recovery_action")
    gpus = [{name: gpu.get(name) for name in kept} for gpu in nvml.get("gpus", [])]
    lines = now if "error" in now else [line for line in now["lines"] if line not in known]
    return {"new_log_lines": lines, "gpus_after": gpus}


def shared_guards(answer: dict[str, Any], options: Any) -> dict[str, Any]:
    """Return what the NCCL ladder is told: its mode, and what it must not do by the same rules as the P2P ladder."""
    reason = None if options.while_busy else p2p_guard.busy(answer["nvml"])
    return {
        "mode": options.nccl,
        "env": options.nccl_env or None,
        "busy": [reason] if reason else [],
        "p2p_refused": "" if options.accept_risk else p2p_guard.any_risk(answer, options.host_paths) or "",
    }


def main(argv: Sequence[str] | None = None, stdout: Any = None, root: str = "/", libraries: Any = None) -> int:
    """Run the program.  Returns 0: what is wrong with the guest stands in the answer."""
    options = arguments.parse(sys.argv[1:] if argv is None else argv)
    files = Files(root)
    module = module_level.module(files)
    libraries = libraries or Libraries(module["version"])
    answer = levels(files, libraries, module)
    if options.p2p:
        answer["p2p"] = {**p2p_ladder.p2p(answer, options, libraries), **afterwards(answer, files, libraries)}
    if options.nccl:
        wanted = {**shared_guards(answer, options), **options.nccl_options}
        answer["nccl"] = nccl_ladder.ladder(wanted, libraries.nccl_machine(), root)
    out = stdout or sys.stdout
    out.write(json.dumps(answer) + "\n")
    out.flush()
    return 0
