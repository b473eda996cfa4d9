"""The line that names a device: address, class and name, in the forms of lspci and of listings made with it.

01:00.0 VGA compatible controller: NVIDIA Corporation GA102 (rev a1)          lspci
0000:01:00.0 VGA compatible controller [0300]: NVIDIA ... [10de:2206]         lspci -Dnn
01:00.0 0300: 10de:2206 (rev a1)                                              lspci -n
00:01.1/01:00.0 VGA compatible controller: ...                                lspci -PP
[10de:2206] [R] 01:00.0  VGA compatible controller      GA102 [GeForce]       ls-iommu
0000:01:00.0                                                                  a bare address
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from provision.readers.names import class_code, vendor_id

ADDRESS = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]"

_LSPCI = re.compile(
    rf"^\s*(?P<path>{ADDRESS}(?:/[0-9a-fA-F]{{2}}:[01][0-9a-fA-F]\.[0-7])*)\s+"
    r"(?P<class>[^\s:\[\]\"][^:\[\]\"]{0,60}?)?\s*(?:\[(?P<code>[0-9a-fA-F]{4})\])?:\s+(?P<rest>\S.*)$"
)
_ROW = re.compile(
    rf"^\s*\[(?P<vendor>[0-9a-fA-F]{{4}}):(?P<device>[0-9a-fA-F]{{4}})\]\s*(?:\[.\]\s*)?(?P<address>{ADDRESS})\s+"
    r"(?P<class>\S+(?: \S+)*)(?:\s{2,}(?P<name>.*))?$"
)
_BARE = re.compile(rf"^\s*(?P<address>{ADDRESS})\s*$")
_SHORT_PATH = re.compile(rf"^\s*{ADDRESS}(?:/[01][0-9a-fA-F]\.[0-7])+\s")
_IDS = re.compile(r"\[(?P<vendor>[0-9a-fA-F]{4}):(?P<device>[0-9a-fA-F]{4})\]")
_NUMERIC = re.compile(r"^(?P<vendor>[0-9a-fA-F]{4}):(?P<device>[0-9a-fA-F]{4})\b")
_UNNAMED = re.compile(r"(?:^|\s)Device (?P<device>[0-9a-fA-F]{4})$")
_REVISION = re.compile(r"\(rev (?P<revision>[0-9a-fA-F]{2})\)")
_PROG_IF = re.compile(r"\(prog-if (?P<prog_if>[0-9a-fA-F]{2})\b[^)]*\)")
_CODE = re.compile(r"^(?:Class )?(?P<code>[0-9a-fA-F]{4})$")
_MAX_CLASS_WORDS = 6


@dataclass(frozen=True)
class Head:
    """What a head line says; ``None`` for what it does not."""

    bdf: str
    chain: tuple[str, ...] = ()
    """Bridges above, from the top down, where the line prints the path."""
    class_code: int | None = None
    """Base class and subclass."""
    prog_if: int | None = None
    vendor: int | None = None
    device: int | None = None
    revision: int | None = None
    name: str = ""

    @property
    def is_bare(self) -> bool:
        return not self.name and self.class_code is None


def full(address: str) -> str:
    """Return ``address`` with its domain, in lower case; without one it is domain 0000."""
    address = address.lower()
    return address if address.count(":") == 2 else f"0000:{address}"


def read_head(text: str) -> Head | None:
    """Return the device that ``text`` names, or None where it is no head line (a bare address is none)."""
    return _read_lspci(text) or _read_row(text)


def read_bare(text: str) -> Head | None:
    """Return a device of which the line gives the address alone, or None."""
    match = _BARE.match(text)
    return Head(full(match["address"])) if match else None


def read_bare_all(text: str) -> tuple[Head, ...]:
    """Return the devices of a line that holds nothing but addresses, as ``ls`` prints them; empty for any other."""
    heads = [read_bare(word) for word in text.split()]
    return tuple(head for head in heads if head is not None) if all(heads) else ()


def is_short_path(text: str) -> bool:
    """True for a line of ``lspci -P``: its path has no bus numbers, so the address is not known."""
    return _SHORT_PATH.match(text) is not None


def _read_lspci(text: str) -> Head | None:
    match = _LSPCI.match(text)
    if match is None:
        return None
    name, rest = (match["class"] or "").strip(), match["rest"].strip()
    numeric = _CODE.match(name)
    code = match["code"] or (numeric["code"] if numeric else None)
    known = int(code, 16) if code else class_code(name)
    if known is None and not _is_plausible(name, rest):
        return None
    addresses = [full(match["path"].split("/")[0])]
    addresses += [addresses[0][:-7] + part.lower() for part in match["path"].split("/")[1:]]
    vendor, device = device_ids(rest)
    revision, prog_if = _REVISION.search(rest), _PROG_IF.search(rest)
    return Head(
        bdf=addresses[-1],
        chain=tuple(addresses[:-1]),
        class_code=known,
        prog_if=int(prog_if["prog_if"], 16) if prog_if else None,
        vendor=vendor,
        device=device,
        revision=int(revision["revision"], 16) if revision else 0,
        name=bare_name(rest),
    )


def _is_plausible(name: str, rest: str) -> bool:
    """A class that is not in the table, against a sentence that begins with an address."""
    if _IDS.search(rest) or _REVISION.search(rest):
        return True
    words = name.split()
    return bool(words) and len(words) <= _MAX_CLASS_WORDS and name[0].isupper() and vendor_id(rest) is not None


def _read_row(text: str) -> Head | None:
    match = _ROW.match(text)
    if match is None:
        return None
    return Head(
        bdf=full(match["address"]),
        class_code=class_code(match["class"]),
        vendor=int(match["vendor"], 16),
        device=int(match["device"], 16),
        name=(match["name"] or "").strip(),
    )


def device_ids(text: str) -> tuple[int | None, int | None]:
    """Return vendor and device of what stands behind the class, or behind ``Subsystem:``."""
    found = _NUMERIC.match(text) or next(reversed(list(_IDS.finditer(text))), None)
    if found is not None:
        return int(found["vendor"], 16), int(found["device"], 16)
    name = bare_name(text)
    unnamed = _UNNAMED.search(name)
    return vendor_id(name), int(unnamed["device"], 16) if unnamed else None


def bare_name(text: str) -> str:
    """Return the name without ids, revision and programming interface."""
    for pattern in (_REVISION, _PROG_IF, _IDS, _NUMERIC):
        text = pattern.sub("", text)
    return " ".join(text.split())
