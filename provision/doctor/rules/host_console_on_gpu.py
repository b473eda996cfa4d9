"""The host draws its screen on a GPU that goes to a guest."""

from __future__ import annotations

from provision.doctor import cite
from provision.doctor.fabric import goes_to_guest, title
from provision.doctor.finding import Evidence, Finding
from provision.doctor.rule import Outcome, Rule, undecided
from provision.doctor.say import found
from provision.evidence import Maybe, Unknown, known
from provision.host.model import HostModel
from provision.pci.model import PciFunction

ID = "host-console-on-gpu"
SOURCE = "Linux, drivers/firmware/sysfb.c; Proxmox VE Administration Guide, PCI(e) Passthrough"


def check(model: HostModel) -> Outcome:
    for gpu in model.gpus():
        passed = goes_to_guest(gpu, model)
        if passed is False:
            continue
        why = _why(gpu, model)
        if isinstance(why, Unknown):
            yield undecided(ID, why, f"whether the host's screen is on {gpu.bdf}")
        elif why and isinstance(passed, Unknown):
            yield undecided(ID, passed, f"whether {gpu.bdf} goes to a guest")
        elif why:
            yield _finding(gpu, why)


def _why(gpu: PciFunction, model: HostModel) -> Maybe[tuple[Evidence, ...]]:
    screen, line = model.kernel.boot_framebuffer, model.kernel.running_cmdline
    if isinstance(screen, tuple):
        for bar in known(gpu.bars, ()):
            if bar.start and bar.start <= screen[0] < bar.start + bar.size:
                return (
                    Evidence(
                        source="/proc/iomem", excerpt=f"{screen[0]:x}-{screen[1]:x}: boot screen, BAR {bar.index}"
                    ),
                )
    if isinstance(line, str) and "sysfb_init" in line:
        return ()
    if gpu.boot_vga is True:
        return line if isinstance(line, Unknown) else (cite.hardware(f"{gpu.bdf}/boot_vga", "1"),)
    return next((fact for fact in (gpu.boot_vga, screen) if isinstance(fact, Unknown)), ())


def _finding(gpu: PciFunction, why: tuple[Evidence, ...]) -> Finding:
    return found(
        ID,
        "warning",
        (gpu.bdf,),
        f"{title(gpu)} goes to a guest, and firmware uses it as the host's screen",
        why,
        "the start may fail (BAR can't reserve), and the host has no screen while the VM runs",
        "firmware setup: make the BMC or integrated graphics the primary display",
        "or add initcall_blacklist=sysfb_init to the kernel command line; the early console is lost",
        source=SOURCE,
    )


RULE = Rule(ID, "The host's screen is on a GPU that goes to a guest", check)
