"""How the host is reached, as far as the host itself can see: its management address and its gateway."""

from __future__ import annotations

from provision.apply.host_files import read_file
from provision.apply.records import LocalCheck
from provision.errors import Refused
from provision.remote.session import Session

ROUTES = "/proc/net/route"
"""IPv4 routes; addresses are little endian hexadecimal (net/ipv4/fib_trie.c)."""
LOCALS = "/proc/net/fib_trie"


def management(session: Session) -> LocalCheck:
    """Return the address of the interface with the default route, and its gateway.  Raises Refused."""
    _, routes = read_file(session, ROUTES)
    for line in routes.decode("ascii", "replace").splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[1] == fields[7] == "00000000" and fields[2] != "00000000":
            address = _address_on(fields[0], routes, session)
            if address:
                return LocalCheck(address=address, gateway=_dotted(fields[2]))
    raise Refused(
        f"Unable to let {session.target} confirm by itself: it has no IPv4 default route that could be read",
        "leave out --confirm local, and confirm with: pvectl apply --resume",
    )


def _dotted(text: str) -> str:
    return ".".join(str(byte) for byte in reversed(bytes.fromhex(text)))


def _number(text: str) -> int:
    return int.from_bytes(bytes(int(part) for part in text.split(".")), "big")


def _address_on(interface: str, routes: bytes, session: Session) -> str:
    """Return the host's own address in a network that the interface leads to, empty where there is none."""
    networks = []
    for line in routes.decode("ascii", "replace").splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[0] == interface and fields[7] != "00000000":
            networks.append((_number(_dotted(fields[1])), _number(_dotted(fields[7]))))
    _, trie = read_file(session, LOCALS)
    before = ""
    for line in trie.decode("ascii", "replace").splitlines():
        word = line.strip()
        if word == "/32 host LOCAL" and any(_number(before) & mask == base for base, mask in networks):
            return before
        if word.startswith("|-- "):
            before = word.removeprefix("|-- ")
    return ""
