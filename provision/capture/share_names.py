"""Pseudonyms of one bundle: the same thing has the same pseudonym wherever it stands, by kind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Final, Literal

from provision.capture.share_addresses import Address, AddressBook

Kind = Literal[
    "host name",
    "user name",
    "IP address",
    "MAC address",
    "UUID",
    "serial number",
    "SSH key",
    "e-mail address",
    "domain name",
    "storage name",
    "VM name",
    "mapping",
    "interface",
    "volume",
    "path",
    "label",
    "token",
    "link",
]

_WORDS: Final = """
    root pve proxmox local local-lvm local-zfs rpool bpool data swap boot efi esp home var tmp usr srv opt mnt media
    localhost localdomain node host linux debian ubuntu windows kvm qemu vfio vfio-pci nvidia nouveau intel amd gpu gpus
    pci pcie iommu vm vms net lan wan nas nfs iscsi zfs lvm ext4 xfs btrfs vfat quiet splash auto manual static none
    default on off yes no true false admin user users nobody daemon www-data backup images iso system grub shim kernel
    console serial name type size memory cores cpu machine bios args tags boot vga agent ssd disk raid cache log ROOT
"""
COMMON: Final = frozenset(_WORDS.split())
"""Words of products, installers and settings.  As a name they tell nothing, and as words they stand everywhere."""
_LONG: Final = 5
"""From this length on a name of a host or a person is looked for inside other names."""
SHORTEST: Final = 3
"""A shorter name is replaced where it stands as a name, not where it may be part of a text."""

_FORMS: dict[Kind, Callable[[int], str]] = {
    "host name": lambda n: f"host-{n}",
    "user name": lambda n: f"user-{n}",
    "MAC address": lambda n: f"02:00:00:{n >> 16 & 0xFF:02x}:{n >> 8 & 0xFF:02x}:{n & 0xFF:02x}",
    "UUID": lambda n: f"00000000-0000-4000-8000-{n:012d}",
    "serial number": lambda n: f"serial-{n}",
    "SSH key": lambda n: f"ssh-key-{n}",
    "e-mail address": lambda n: f"person-{n}@mail.invalid",
    "domain name": lambda n: f"domain-{n}.invalid",
    "storage name": lambda n: f"storage-{n}",
    "VM name": lambda n: f"vm-name-{n}",
    "mapping": lambda n: f"mapping-{n}",
    "interface": lambda n: f"if{n}x",
    "volume": lambda n: f"volume{n}",
    "path": lambda n: f"folder-{n}",
    "label": lambda n: f"label-{n}",
    "token": lambda n: f"token-{n}",
    "link": lambda n: f"https://link-{n}.invalid/",
}


class Pseudonyms:
    """The table of a bundle.  It never goes into the bundle."""

    def __init__(self, key: bytes) -> None:
        self.addresses = AddressBook(key)
        self.table: dict[Kind, dict[str, str]] = {}
        self.removed: Counter[str] = Counter()
        """What was taken out without a pseudonym, by kind: comments, descriptions."""
        self._words: dict[str, str] = {}
        self._search: re.Pattern[str] | None = None

    def of(self, kind: Kind, text: str) -> str:
        """Return the pseudonym of ``text``; a common word is its own."""
        if text in COMMON or not text:
            return text
        own = self.table.setdefault(kind, {})
        if text not in own:
            own[text] = _FORMS[kind](len(own) + 1)
        return own[text]

    def name(self, kind: Kind, text: str) -> str:
        """Like :meth:`of`, and replace the name from now on in every text as well."""
        if text.lower() in self._words:
            return self._words[text.lower()]
        other = self.of(kind, text)
        if other != text and len(text) >= SHORTEST:
            self.also(text, other)
        return other

    def also(self, text: str, other: str) -> None:
        """Replace another spelling of a name in texts."""
        self._words[text.lower()] = other
        self._search = None

    def address(self, address: Address, length: int | None = None) -> Address:
        """Return the pseudonym of an address, or of a network's address where a prefix length is given."""
        book = self.addresses
        other = book.other(address) if length is None else book.network(address, length)
        if other != address:
            self.table.setdefault("IP address", {})[str(address)] = str(other)
        return other

    def digits(self, kind: Kind, text: str, make: Callable[[int], str]) -> str:
        """Return a pseudonym of another form than the kind's own, counted with it."""
        own = self.table.setdefault(kind, {})
        if text not in own:
            own[text] = make(len(own) + 1)
        return own[text]

    def words(self, text: str) -> str:
        """Replace every known name that stands in ``text`` as a word."""
        if not self._words:
            return text
        if self._search is None:
            self._search = search_for(self._words, self.compounds())
        return self._search.sub(lambda match: self._words[match[0].lower()], text)

    def compounds(self) -> frozenset[str]:
        """Return the names, in small letters, that are found as a part of another name too (``kestrel7-backup``)."""
        return frozenset(
            text.lower()
            for kind in ("host name", "user name")
            for text in self.table.get(kind, ())
            if len(text) >= _LONG
        )

    def remove(self, what: str, count: int = 1) -> None:
        if count:
            self.removed[what] += count

    def counts(self) -> dict[str, int]:
        """Return how many different things of each kind were replaced."""
        return {kind: len(own) for kind, own in sorted(self.table.items()) if own}


def search_for(words: Iterable[str], compounds: Collection[str]) -> re.Pattern[str]:
    """Return a search for ``words`` in any letters: whole words, ``compounds`` also beside a dash."""
    longest = sorted(words, key=len, reverse=True)
    whole = "|".join(re.escape(word) for word in longest)
    parts = "|".join(re.escape(word) for word in longest if word.lower() in compounds)
    inside = rf"|(?<![^\W_])(?:{parts})(?![^\W_])" if parts else ""
    return re.compile(rf"(?<![\w-])(?:{whole})(?![\w-]){inside}", re.IGNORECASE)
