"""Replace in any text what shows by its form: addresses, keys, UUIDs, mail, domains, tokens, serial numbers."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from provision.capture.secrets import MASK
from provision.capture.share_names import Kind, Pseudonyms

_PEM = re.compile(r"-----BEGIN [^-\n]{1,60}-----.*?(?:-----END [^-\n]{1,60}-----|\Z)", re.DOTALL)
_SSH_KEY = re.compile(
    r"(?:(?:sk-)?(?:ssh|ecdsa)-[\w.@-]{1,60}[ \t]+|\b)AAAA[0-9A-Za-z+/]{16,}={0,3}(?:[ \t][^\r\n\"']*)?"
)
_FINGERPRINT = re.compile(r"\bSHA256:[0-9A-Za-z+/]{43}=?|\bMD5(?::[0-9a-f]{2}){16}")
_DIGEST_FINGERPRINT = re.compile(r"(?<![\w:])(?:[0-9A-Fa-f]{2}:){15,31}[0-9A-Fa-f]{2}(?![\w:])")
_SECRET = re.compile(
    r"(?i)((?:pass(?:word|wd|phrase)?|secret|token(?:_?id)?|api[_-]?key|psk|auth[_-]?key|keyring)[\w-]{0,20}\s*[=:]\s*)"
    r"(\"[^\"\n]*\"|'[^'\n]*'|[^\s,;\"']+)"
)
_PVE_TOKEN = re.compile(r"[\w.+-]{1,64}@[\w.-]{1,64}!\w[\w.-]{0,126}")
_TICKET = re.compile(r"\bPVE(?:VNC|API\w*)?:[^\s:]+:[0-9A-F]{8}::[0-9A-Za-z+/=]{16,}")
_WELL_KNOWN_TOKEN = re.compile(
    r"\b(?:gh[pousr]_|glpat-|hf_|nvapi-|sk-|xox[abprs]-|AKIA|eyJ)[0-9A-Za-z_./+-]{16,}|grub\.pbkdf2\.[\w.]+"
)
_CRYPT = re.compile(r"\$(?:[156]|2[aby]|y|7)\$[./0-9A-Za-z$=,]{8,}")
_URL = re.compile(r"\b(?:https?|ftp|ssh|smb|git)://[^\s\"'<>]+")
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?!tty)[A-Za-z][\w.-]{0,253}")
_UUID = re.compile(r"(?<![0-9A-Za-z])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Za-z])")
_PLAIN_UUID = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{32}(?![0-9A-Za-z])")
_LVM_UUID = re.compile(r"(?<![\w-])[0-9A-Za-z]{6}(?:-[0-9A-Za-z]{4}){5}-[0-9A-Za-z]{6}(?![\w-])")
_MAC = re.compile(r"(?<![\w:-])(?:[0-9A-Fa-f]{2}([:-]))(?:[0-9A-Fa-f]{2}\1){4,18}[0-9A-Fa-f]{2}(?![\w:-])")
_PACKED_MAC = re.compile(r"(?:(?<=\benx)|(?<=\bwlx)|(?<=MAC\())[0-9A-Fa-f]{12}(?![0-9A-Fa-f])")
_SERIAL = re.compile(r"(?i)((?<![\w])(?:serial(?:[ _-]?(?:number|no))?|s/n|uniq|wwn)\s*[=:#]\s*)([\w.-]{4,})")
_DSN = re.compile(r"(?<![\w-])(?:[0-9a-f]{2}-){7}[0-9a-f]{2}(?![\w-])")
_WORLD_WIDE = re.compile(r"((?<![0-9a-z])(?:wwn-0x|naa\.|eui\.|nvme\.))([0-9a-f]{12,64})(?![0-9a-f])")
_PAIRS = re.compile(r"[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2})+")
_PLAIN_DSN = re.compile(r"((?:\bdsn[\"']?\s*[=:]\s*[\"']?))([0-9a-f]{16})\b")
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9A-Fa-f.]*:)[0-9A-Fa-f:.]{3,45}(?![\w:])")
_IPV4 = re.compile(r"(?<![\w.])(\d{1,3}(?:\.\d{1,3}){3})(?:/(\d{1,2}))?(?![\w.]*\d|-[a-z])")
_HOME = re.compile(r"((?:/home|/Users|/var/home)/)([^/\s:,;\"']+)")
_TOPS: Final = (
    "com|net|org|edu|gov|mil|int|info|biz|io|ai|dev|app|cloud|tech|systems|network|online|site|xyz|eu|de|at|ch|fr|uk|nl|be|"
    "it|es|pt|dk|fi|cz|sk|hu|ro|gr|ie|ru|ua|us|ca|mx|br|ar|cl|au|nz|jp|cn|kr|tw|hk|sg|in|za|tr|il|"
    "local|lan|internal|intranet|corp|home|private|localdomain|arpa|example|test"
)
_DOMAIN = re.compile(rf"(?<![\w./@%-])(?:[A-Za-z0-9](?:[\w-]{{0,61}}[A-Za-z0-9])?\.){{1,8}}(?:{_TOPS})(?![\w-]|\.\w)")
_EMPTY_DSN = ("0" * 16, "f" * 16)
_NO_MAC = frozenset({"00", "ff"})


def scrub(text: str, names: Pseudonyms) -> str:
    """Return ``text`` with pseudonyms, and the names that ``names`` knows replaced.  Line feeds stay where they are."""
    text = _PEM.sub(lambda hit: _gone(hit[0], names), text)
    text = _kind(_SSH_KEY, "SSH key", text, names)
    text = _kind(_FINGERPRINT, "SSH key", text, names)
    for pattern in (_TICKET, _PVE_TOKEN, _WELL_KNOWN_TOKEN, _CRYPT):
        text = _kind(pattern, "token", text, names)
    text = _value(_SECRET, "token", text, names)
    text = _kind(_URL, "link", text, names)
    text = _kind(_MAIL, "e-mail address", text, names)
    text = _numbers(text, names)
    text = _HOME.sub(lambda hit: hit[1] + names.name("user name", hit[2]), text)
    text = _DOMAIN.sub(lambda hit: domain(hit[0], names), text)
    return names.words(text)


def domain(text: str, names: Pseudonyms) -> str:
    """Return a host's full name with its own name and its domain replaced one by one."""
    head, _, rest = text.partition(".")
    if "." in rest or names.words(head) != head:
        return f"{names.words(names.name('host name', head))}.{_zone(rest, names)}"
    return _zone(text, names)


def serial(digits: str, names: Pseudonyms) -> str:
    """Return another serial number of 16 hex digits; one that says "none" stays."""
    if digits in _EMPTY_DSN:
        return digits
    return names.digits("serial number", digits, lambda n: f"5e{n:014x}")


def plain_uuid(digits: str, names: Pseudonyms) -> str:
    """Return another UUID without dashes, as machine-id has it."""
    return names.digits("UUID", digits, lambda n: f"0000000000004000{0x8000 << 48 | n:016x}")


def _zone(text: str, names: Pseudonyms) -> str:
    return text if text == "localdomain" else names.of("domain name", text.lower())


def _numbers(text: str, names: Pseudonyms) -> str:
    text = _UUID.sub(lambda hit: names.of("UUID", hit[0].lower()), text)
    text = _PLAIN_UUID.sub(lambda hit: plain_uuid(hit[0], names), text)
    text = _LVM_UUID.sub(lambda hit: names.digits("UUID", hit[0], _lvm_uuid), text)
    text = _DSN.sub(lambda hit: _dashed(serial(hit[0].replace("-", ""), names)), text)
    text = _PLAIN_DSN.sub(lambda hit: hit[1] + serial(hit[2], names), text)
    text = _kind(_DIGEST_FINGERPRINT, "SSH key", text, names) if text.count(":") > 14 else text
    text = _MAC.sub(lambda hit: _mac(hit[0], names), text)
    text = _PACKED_MAC.sub(lambda hit: _mac(":".join(re.findall("..", hit[0])), names).replace(":", ""), text)
    text = _value(_SERIAL, "serial number", text, names)
    text = _value(_WORLD_WIDE, "serial number", text, names)
    text = _IPV6.sub(lambda hit: _address6(hit[0], names), text)
    return _IPV4.sub(lambda hit: _address4(hit, names), text)


def _lvm_uuid(number: int) -> str:
    return f"000000-0000-0000-0000-0000-0000-{number:06d}"


def _dashed(digits: str) -> str:
    return "-".join(re.findall("..", digits))


def _mac(text: str, names: Pseudonyms) -> str:
    plain = text.lower().replace("-", ":")
    if set(plain.split(":")) <= _NO_MAC:
        return text
    other = names.of("MAC address", plain)
    other = other if len(plain) == len(other) else f"{'02:00:' * 20}"[: len(plain) - len(other)] + other
    other = other.replace(":", "-") if "-" in text else other
    return other.upper() if text != text.lower() else other


def _address6(text: str, names: Pseudonyms) -> str:
    if _PAIRS.fullmatch(text):
        return text
    bare = text.rstrip(".:") if not text.endswith("::") else text
    try:
        address = ipaddress.IPv6Address(bare)
    except ValueError:
        return text
    return str(names.address(address)) + text[len(bare) :]


def _address4(hit: re.Match[str], names: Pseudonyms) -> str:
    try:
        address = ipaddress.IPv4Address(hit[1])
    except ValueError:
        return hit[0]
    if hit[2] is None:
        return str(names.address(address))
    is_network = int(hit[2]) <= 32 and not int(address) & (1 << 32 - int(hit[2])) - 1
    return f"{names.address(address, int(hit[2]) if is_network else None)}/{hit[2]}"


def _gone(text: str, names: Pseudonyms) -> str:
    names.of("token", text)
    return "removed" + "\n" * text.count("\n")


def _kind(pattern: re.Pattern[str], kind: Kind, text: str, names: Pseudonyms) -> str:
    return pattern.sub(lambda hit: names.of(kind, hit[0]), text)


def _value(pattern: re.Pattern[str], kind: Kind, text: str, names: Pseudonyms) -> str:
    return pattern.sub(lambda hit: hit[1] + _once(kind, hit[2], names), text)


def _once(kind: Kind, text: str, names: Pseudonyms) -> str:
    """A value that is a pseudonym already stays."""
    is_ours = text in ("removed", MASK) or any(text in own.values() for own in names.table.values())
    return text if is_ours else names.of(kind, text)
