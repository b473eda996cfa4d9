"""The ways in which a person sees and types at the host when the network is gone: one of them must stay."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.inventory.models import Policies
from provision.plan.guard_hit import GuardHit, Vital, missing

_USB = 0x0C03


def console(model: HostModel, policies: Policies, members: Collection[str]) -> Iterator[Vital | GuardHit]:
    """Yield the consoles that must not go, given all devices (``members``) that would leave the host.

    ``policies.console: serial`` or ``headless`` gives up every one, ``bmc`` all but the BMC's own.
    """
    if policies.console not in ("keep", "bmc"):
        return
    yield from _bmc(model, policies, members)
    if policies.console == "keep":
        yield from _display(model, members)
        yield from _keyboard(model, members)


def _bmc(model: HostModel, policies: Policies, members: Collection[str]) -> Iterator[Vital]:
    """The BMC's display is what its remote console shows."""
    console = model.console
    if console.serial is True and policies.console == "keep":
        return
    screen = console.boot_vga
    has_screen = isinstance(screen, str) and screen not in members and screen not in console.bmc
    if has_screen and policies.console == "keep":
        return
    for bdf in console.bmc:
        yield Vital(bdf, "console", "is the display of the BMC, the host's only way in without the network")


def _display(model: HostModel, members: Collection[str]) -> Iterator[Vital | GuardHit]:
    console = model.console
    has_bmc = console.has_bmc is True and not set(console.bmc) & set(members)
    if has_bmc or console.serial is True:
        return
    if isinstance(console.boot_vga, Unknown):
        yield missing("which device drives the host's display is", console.boot_vga)
    elif console.boot_vga is not None and console.boot_vga not in console.bmc:
        doubt = [
            f"whether there is {what} is {fact}"
            for what, fact in (("a BMC", console.has_bmc), ("a serial console", console.serial))
            if isinstance(fact, Unknown)
        ]
        known = "; ".join(doubt) or "there is neither a BMC nor a serial console"
        yield Vital(console.boot_vga, "console", f"is the host's only display ({known})")


def _keyboard(model: HostModel, members: Collection[str]) -> Iterator[Vital | GuardHit]:
    """A serial console needs none; a BMC's keyboard is one on USB like any other."""
    keyboards = model.console.keyboards
    if model.console.serial is True:
        return
    if isinstance(keyboards, Unknown):
        functions = [f for f in model.pci if f.bdf in members and f.class_code >> 8 == _USB]
        if functions:
            yield missing(f"whether the host's only keyboard is behind {functions[0].bdf} is", keyboards)
        return
    if keyboards and all(bdf in members for bdf in keyboards):
        for bdf in dict.fromkeys(keyboards):
            if bdf is not None:
                yield Vital(bdf, "console", "drives the host's only keyboard")
