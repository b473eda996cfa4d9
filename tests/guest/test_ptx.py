"""The kernels assemble for every generation that the assembler at hand knows."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from provision.guest.onboard.ptx import PTX, SIGNATURES

PTXAS = shutil.which("ptxas") or next((str(path) for path in Path("/usr/local").glob("cuda*/bin/ptxas")), None)
WIDTHS = {"Q": ".u64", "I": ".u32"}


@pytest.mark.parametrize("kernel", SIGNATURES)
def test_a_signature_is_what_the_kernel_takes(kernel: str) -> None:
    match = re.search(rf"\.entry {kernel}\(([^)]*)\)", PTX)
    assert match
    assert [word.split()[1] for word in match[1].split(",")] == [WIDTHS[kind] for kind in SIGNATURES[kernel]]


def test_every_label_belongs_to_one_kernel() -> None:
    labels = re.findall(r"^(\w+):$", PTX, re.MULTILINE)
    assert len(labels) == len(set(labels))
    assert set(re.findall(r"bra (\w+);", PTX)) <= set(labels)


@pytest.mark.skipif(PTXAS is None, reason="no ptxas here")
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_it_assembles(tmp_path: Path, architecture: str) -> None:
    (tmp_path / "kernels.ptx").write_text(PTX)
    words = [str(PTXAS), "--warning-as-error", f"-arch={architecture}", "-o", "kernels.cubin", "kernels.ptx"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "is not defined for option 'gpu-name'" in done.stderr:
        pytest.skip(f"this ptxas does not know {architecture}")
    assert done.returncode == 0, done.stderr
