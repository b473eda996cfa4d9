"""The window to the GPU's memory was not enlarged."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.fabric import title
from provision.doctor.finding import Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.host.text_layout import size
from provision.pci.model import PciFunction
from provision.pci.windows import GpuWindow, gpu_windows

ID = "bar1-small"
SOURCE = "PCI Express Base Specification, 7.8.6; NVIDIA, displaymodeselector"


def check(model: HostModel) -> Outcome:
    for gpu, window in zip(model.gpus(), gpu_windows(model.gpus(), model.pci), strict=True):
        if isinstance(window.resizing, Unknown):
            yield undecided(ID, window.resizing, f"resizable BARs of {gpu.bdf}")
        elif window.resizing == "off" and isinstance(window.memory_bar, int):
            yield _finding(gpu, window)


def _finding(gpu: PciFunction, window: GpuWindow) -> Finding:
    shown = size(window.memory_bar) if isinstance(window.memory_bar, int) else "nothing"
    bridge = (
        (cite.hardware(f"{window.bridge}/resource", f"prefetchable window {size(window.window)}"),)
        if isinstance(window.bridge, str) and isinstance(window.window, int)
        else ()
    )
    return found(
        ID,
        "warning",
        (gpu.bdf,),
        f"{title(gpu)} shows {shown} of its memory, and could show more (Resizable BAR is off)",
        (cite.hardware(f"{gpu.bdf}/resource", f"BAR1 {shown}"), *bridge),
        "transfers between GPUs over BAR1 and GPUDirect are weak or impossible",
        "firmware setup: Resizable BAR on, beside Above 4G Decoding; professional cards: displaymodeselector, compute",
        source=SOURCE,
        cause="BAR1 was not enlarged",
    )


RULE = Rule(ID, "A GPU shows only a small part of its memory", check)
