"""What the kernel command line says about IOMMU and ACS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from provision.pci.acs import AcsRule, parse_config, parse_redirect

_RELEASE = re.compile(r"(\d+)\.(\d+)")
_OVERRIDE_ID = re.compile(r"id:([0-9a-fA-F]{1,4}):([0-9a-fA-F]{1,4})")


@dataclass(frozen=True)
class KernelOptions:
    """Everything outside the devices that decides how they are grouped.

    ``acs_override``: ``downstream``, ``multifunction`` and ``id:vvvv:dddd`` of Proxmox's
    ``pcie_acs_override``.  ``firmware_acs``: ACS control registers as firmware set them, by BDF,
    where they are known (the lab knows; a running kernel has overwritten them).
    """

    iommu_on: bool = True
    acs_override: frozenset[str] = frozenset()
    disable_acs_redir: tuple[AcsRule, ...] = ()
    config_acs: tuple[AcsRule, ...] = ()
    firmware_acs: Mapping[str, int] = field(default_factory=dict)
    use_quirks: bool = True
    """False only to find out whether the kernel's quirk table explains a difference."""

    @classmethod
    def from_cmdline(
        cls,
        cmdline: str,
        cpu_vendor: str | None = None,
        *,
        release: str | None = None,
        firmware_table: bool | None = None,
        firmware_acs: Mapping[str, int] | None = None,
    ) -> Self:
        """Read the command line as the kernel does.

        ``cpu_vendor`` is ``AuthenticAMD`` or ``GenuineIntel``; without it either vendor's ``off``
        counts.  ``release`` decides defaults that moved (``config_acs`` came with 6.11, Intel's IOMMU
        is on by default in Proxmox kernels from 6.8).  ``firmware_table`` False: no DMAR or IVRS.
        """
        words = tuple(_words(cmdline))
        pci = [option for key, value in words if key == "pci" for option in value.split(",")]
        return cls(
            iommu_on=firmware_table is not False and _is_iommu_on(words, cpu_vendor, release),
            acs_override=_override(words),
            disable_acs_redir=tuple(
                rule for value in _last(pci, "disable_acs_redir=") for rule in parse_redirect(value)
            ),
            config_acs=tuple(
                rule
                for value in (_last(pci, "config_acs=") if is_at_least(release, 6, 11) else ())
                for rule in parse_config(value)
            ),
            firmware_acs=firmware_acs or {},
        )


def is_at_least(release: str | None, major: int, minor: int) -> bool:
    """Compare a kernel release; one that is not known counts as new."""
    match = _RELEASE.match(release or "")
    return match is None or (int(match[1]), int(match[2])) >= (major, minor)


def _words(cmdline: str) -> Iterator[tuple[str, str]]:
    """Split like the kernel: quotes keep blanks, ``-`` and ``_`` are the same in names, ``--`` ends it."""
    for word in re.findall(r'(?:[^\s"]|"[^"]*"?)+', cmdline):
        if word == "--":
            return
        key, _, value = word.replace('"', "").partition("=")
        yield key.replace("-", "_"), value


def _last(options: list[str], prefix: str) -> tuple[str, ...]:
    """A repeated parameter replaces the one before it."""
    return tuple(option.removeprefix(prefix) for option in options if option.startswith(prefix))[-1:]


def _is_iommu_on(words: tuple[tuple[str, str], ...], cpu_vendor: str | None, release: str | None) -> bool:
    if any(key == "iommu" and "off" in value.split(",") for key, value in words):
        return False
    is_amd, is_intel = cpu_vendor != "GenuineIntel", cpu_vendor != "AuthenticAMD"
    if is_amd and any(key == "amd_iommu" and "off" in value.split(",") for key, value in words):
        return False
    if not is_intel:
        return True
    settings = [part for key, value in words if key == "intel_iommu" for part in value.split(",")]
    switches = [part for part in settings if part in ("on", "off")]
    if switches:
        return switches[-1] == "on"
    return cpu_vendor is None or _has_intel_default(release)


def _has_intel_default(release: str | None) -> bool:
    return "-pve" not in (release or "") or is_at_least(release, 6, 8)


def _override(words: tuple[tuple[str, str], ...]) -> frozenset[str]:
    """``pcie_acs_override`` of Proxmox kernels; ids are normalised to four digits each."""
    found: set[str] = set()
    for key, value in words:
        if key != "pcie_acs_override":
            continue
        for part in value.split(","):
            match = _OVERRIDE_ID.fullmatch(part)
            if part in ("downstream", "multifunction"):
                found.add(part)
            elif match is not None:
                found.add(f"id:{int(match[1], 16):04x}:{int(match[2], 16):04x}")
    return frozenset(found)
