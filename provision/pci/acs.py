"""What Access Control Services a port has and what the kernel will make of them.

The kernel turns SV, RR, CR and UF on at enumeration wherever the capability offers them, as
soon as an IOMMU driver asked for isolation (drivers/pci/pci.c, ``pci_enable_acs``).  Two
parameters change that for named devices; the last word is theirs:

* ``pci=disable_acs_redir=DEV[;DEV]`` clears RR, CR and EC; every other bit falls back to what the
  firmware had set.
* ``pci=config_acs=FLAGS@DEV[;...]`` gives bits one by one, read from the right; ``x`` is again the
  firmware's value, which a running kernel has already overwritten.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from provision.evidence import Unknown
from provision.pci.model import ACS_BITS, REQUIRED_ACS, AcsState, PciFunction
from provision.pci.registers import DWORD_ACS_PORTS
from provision.pci.tree import Tree

SV, TB, RR, CR, UF, EC, DT = (1 << bit for bit in range(7))
REDIRECT = RR | CR | EC
_ALL = 0x7F

_PATH = re.compile(
    r"(?:(?P<domain>[0-9a-fA-F]{1,8}):)?(?P<bus>[0-9a-fA-F]{1,2}):"
    r"(?P<chain>[0-9a-fA-F]{1,2}\.[0-7](?:/[0-9a-fA-F]{1,2}\.[0-7])*)"
)


def bit_names(mask: int) -> tuple[str, ...]:
    """Return the names of the bits set in an ACS register."""
    return tuple(name for bit, name in enumerate(ACS_BITS) if mask >> bit & 1)


def acs_of(fn: PciFunction) -> AcsState | Unknown | None:
    """Return the capability, ``None`` where there is none, Unknown where it could not be read."""
    return fn.config if isinstance(fn.config, Unknown) else fn.config.acs


@dataclass(frozen=True)
class AcsRule:
    """One device of a command line parameter: ``mask`` bits are given, their value is in ``flags``."""

    mask: int
    flags: int
    device: str

    def matches(self, fn: PciFunction, tree: Tree) -> bool:
        """True where the kernel's device syntax (``pci:VVVV:DDDD[:...]`` or a path) names ``fn``."""
        if self.device.startswith("pci:"):
            return _matches_ids(self.device[4:], fn)
        return _matches_path(self.device, fn, tree)


def _matches_ids(text: str, fn: PciFunction) -> bool:
    """Ids in hex; 0 stands for any (drivers/pci/pci.c, ``pci_dev_str_match``)."""
    wanted = [int(part, 16) for part in text.split(":")]
    have = (fn.vendor, fn.device, fn.subsystem_vendor, fn.subsystem_device)
    return all(want in (0, value) for want, value in zip(wanted, have, strict=False))


def _matches_path(text: str, fn: PciFunction, tree: Tree) -> bool:
    """``[domain:]bus:dev.fn[/dev.fn]*``: the last is the function itself, the first stands on ``bus``."""
    match = _PATH.fullmatch(text)
    if match is None:
        return False
    chain = [part.split(".") for part in match["chain"].split("/")]
    here: PciFunction | None = fn
    for index, (device, function) in enumerate(reversed(chain)):
        if here is None:
            return False
        domain, bus, devfn = here.bdf.split(":")
        if devfn != f"{int(device, 16):02x}.{function}":
            return False
        if index == len(chain) - 1:
            return int(bus, 16) == int(match["bus"], 16) and int(domain, 16) == int(match["domain"] or "0", 16)
        here = tree.parent(here)
    return False


def is_device_syntax(text: str) -> bool:
    """True where the kernel would understand ``text`` as a device."""
    if text.startswith("pci:"):
        parts = text[4:].split(":")
        return len(parts) in (2, 4) and all(re.fullmatch(r"[0-9a-fA-F]{1,8}", part) for part in parts)
    return _PATH.fullmatch(text) is not None


def parse_redirect(value: str) -> tuple[AcsRule, ...]:
    """Read the devices of ``disable_acs_redir``; like the kernel, stop at the first that makes no sense."""
    rules: list[AcsRule] = []
    for device in value.split(";"):
        if not is_device_syntax(device):
            break
        rules.append(AcsRule(REDIRECT, 0, device))
    return tuple(rules)


def parse_config(value: str) -> tuple[AcsRule, ...]:
    """Read ``FLAGS@DEV[;FLAGS@DEV]`` of ``config_acs``; stop at the first that makes no sense."""
    rules: list[AcsRule] = []
    for part in value.split(";"):
        flags, at, device = part.partition("@")
        if not at or not re.fullmatch(r"[01x]{1,7}", flags) or not is_device_syntax(device):
            break
        bits = list(enumerate(reversed(flags)))
        rules.append(
            AcsRule(
                mask=sum(1 << bit for bit, char in bits if char != "x"),
                flags=sum(1 << bit for bit, char in bits if char == "1"),
                device=device,
            )
        )
    return tuple(rules)


@dataclass(frozen=True)
class Control:
    """A predicted control register: ``value`` holds in the bits of ``known`` alone."""

    value: int
    known: int


def predicted_control(
    fn: PciFunction,
    acs: AcsState,
    tree: Tree,
    redirect: Sequence[AcsRule],
    config: Sequence[AcsRule],
    firmware: Mapping[str, int],
) -> Control:
    """Return the control register as the kernel will leave it after enumeration.

    ``firmware`` gives control registers as the firmware set them, by BDF, where they are known.
    """
    control = Control(acs.capability & REQUIRED_ACS, REQUIRED_ACS)
    for rule in (*redirect, *config):
        if rule.matches(fn, tree) and not _ignores_parameters(fn):
            control = _apply(rule, firmware.get(fn.bdf))
    # Bits that are not implemented read as zero, whatever is written.
    return Control(control.value & acs.capability, control.known | ~acs.capability & _ALL)


def _ignores_parameters(fn: PciFunction) -> bool:
    """The kernel writes the parameters' value to the ordinary register, which these ports do not have."""
    return fn.vendor == 0x8086 and fn.device in DWORD_ACS_PORTS


def _apply(rule: AcsRule, firmware: int | None) -> Control:
    if firmware is None:
        return Control(rule.flags, rule.mask)
    return Control(firmware & ~rule.mask | rule.flags, _ALL)


def is_isolating(acs: AcsState, control: Control) -> bool | None:
    """True where every required bit that the capability offers is on; None where that is not known.

    Bits missing from the capability count as hard-wired on (``pci_acs_flags_enabled``).
    """
    wanted = REQUIRED_ACS & acs.capability
    if wanted & control.known & ~control.value:
        return False
    return None if wanted & ~control.known else True
