"""Run the shipped probe on this machine, a guest with two GPUs or more, and calibrate it in the same run.

python3 benchmarks/p2p_on_guest.py FOLDER, in the checkout; standard library only.  It writes one JSON file for each
run into FOLDER and prints what must hold: quick under 90 s, the private copy found, the hang ended, figures within
10 % of the independent ones.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from provision.guest.bundle import probe_source  # noqa: E402 - the checkout is not installed here

NOBODY = 65534
RUNS: tuple[tuple[str, tuple[str, ...], int], ...] = (
    ("levels", (), 100),
    ("quick", ("--p2p", "quick"), 150),
    ("full", ("--p2p", "full", "--deadline", "150"), 300),
    ("private-copy", ("--p2p", "quick", "--inject", "private-copy"), 120),
    ("hang", ("--p2p", "quick", "--inject", "hang", "--pairs", "0-1"), 120),
    ("after", ("--p2p", "quick", "--pairs", "0-1"), 120),
)
TOLD_ONLY = ("after", "nobody")
PROCESSORS = 2
NVCC = ("nvcc", "/usr/local/cuda/bin/nvcc")


def run(name: str, words: tuple[str, ...], limit: int, folder: Path, **options: Any) -> dict[str, Any]:
    """Run the probe as a guest would be asked: the program on standard input."""
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-I", "-", *words],
        input=probe_source().encode(),
        capture_output=True,
        timeout=limit,
        check=False,
        **options,
    )
    took = time.monotonic() - begin
    print(f"== {name}: {' '.join(words) or 'levels only'}: exit {done.returncode}, {took:.1f} s", flush=True)
    if done.stderr:
        print(done.stderr.decode("utf-8", "replace")[-3000:])
    try:
        answer: dict[str, Any] = json.loads(done.stdout.decode().splitlines()[-1])
    except (ValueError, IndexError):
        print("   no answer")
        return {}
    if name not in TOLD_ONLY:
        (folder / f"{name}.json").write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    tell(answer)
    return answer


def tell(answer: dict[str, Any]) -> None:
    """Print what a reader wants first."""
    names = ("nvml", "cuda")
    print("   " + ", ".join(f"{name} {answer[name]['state']} {answer[name].get('reason', '')}" for name in names))
    print(f"   kernel log: {answer['kernel_log'].get('error') or len(answer['kernel_log']['lines'])}")
    for name in names:
        print(f"   {name}: {answer[name].get('library')}")
    measured = answer.get("p2p")
    if not measured:
        return
    print(f"   p2p {measured['state']} {measured.get('reason', '')} {measured.get('seconds', '')} s")
    for pair in measured.get("pairs", []):
        steps = {key: (step["state"], step.get("seconds")) for key, step in pair.items() if isinstance(step, dict)}
        print(f"   {pair['source']}-{pair['target']}: {pair['state']} at {pair['at']}; {steps}")
        for key, step in pair.items():
            if isinstance(step, dict) and step["state"] not in ("ok", "skipped"):
                print(f"      {key}: {json.dumps(step)[:700]}")
        if pair.get("data", {}).get("window"):
            print(f"      window {pair['data']['window']}, words {pair['data']['words']}")
        for row in pair.get("staged", {}).get("rows", []) + pair.get("times", {}).get("rows", []):
            print(
                f"      {row['engine']:<5}{row['direction']:<5}{row['bytes']:>10} {row['us']:>10} us "
                f"{row['gb_per_s']:>9} GB/s {row['method']} {row['spread']}"
            )
        for key in ("ping_pong", "both", "staged_both"):
            print(f"      {key}: {json.dumps(pair.get(key))}")
    print(f"   all: {json.dumps(measured.get('all'))[:600]}")
    print(f"   after: {json.dumps(measured.get('gpus_after'))[:400]} {json.dumps(measured.get('new_log_lines'))[:400]}")


def calibrate(folder: Path) -> Path | None:
    """Build and run the independent measurement; None without a compiler."""
    compiler = next((found for found in map(shutil.which, NVCC) if found), None)
    if compiler is None:
        print("== no nvcc: not calibrated")
        return None
    program = folder / "p2p"
    source = HERE / "calibration" / "p2p.cu"
    subprocess.run([compiler, "-O3", "-std=c++17", "-arch=native", "-o", str(program), str(source)], check=True)
    env = {**os.environ, "CUDA_MODULE_LOADING": "EAGER", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=120, check=False, env=env)
    program.unlink()
    print(f"== calibration: exit {done.returncode}\n{done.stderr}{done.stdout}", flush=True)
    path = folder / "calibration.json"
    path.write_text(done.stdout, encoding="utf-8")
    return path if done.returncode == 0 else None


def compare(folder: Path, name: str) -> None:
    words = [sys.executable, str(HERE / "calibration" / "compare.py")]
    subprocess.run([*words, str(folder / f"{name}.json"), str(folder / "calibration.json")], check=False)


def main(words: list[str]) -> int:
    """Run everything; a run that fails does not end the others."""
    folder = Path(words[0])
    folder.mkdir(parents=True, exist_ok=True)
    # A small staged copy takes 12 to 18 us by the processor it is started on: all runs get the same few.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:PROCESSORS])
    calibrated = None
    for name, arguments, limit in RUNS:
        try:
            run(name, arguments, limit, folder)
            if name == "quick":
                calibrated = calibrate(folder)
        except (subprocess.SubprocessError, OSError) as error:
            print(f"== {name}: {error}", flush=True)
        if calibrated and name in ("quick", "full"):
            compare(folder, name)
    if os.geteuid() == 0:
        run("nobody", (), 100, folder, user=NOBODY, group=NOBODY, extra_groups=[])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
