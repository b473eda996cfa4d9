"""``.link`` files of systemd: which name they give to which network interface."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LinkFile:
    """What a link file matches and names, as far as pinning needs it."""

    macs: tuple[str, ...]
    """Addresses in ``[Match] MACAddress=`` and ``PermanentMACAddress=``, in lower case."""
    name: str | None

    @classmethod
    def parse(cls, text: str) -> LinkFile:
        section = ""
        macs: list[str] = []
        name: str | None = None
        for line in (raw.strip() for raw in text.splitlines()):
            if line.startswith("["):
                section = line
            key, equals, value = (part.strip() for part in line.partition("="))
            if line.startswith(("#", ";")) or not equals:
                continue
            if section == "[Match]" and key in ("MACAddress", "PermanentMACAddress"):
                macs += value.lower().split()
            elif section == "[Link]" and key == "Name":
                name = value or None
        return cls(tuple(macs), name)
