"""Addresses of a bundle: other numbers, the same networks.

Two addresses that share the first bits share as many afterwards (J. Xu et al., Crypto-PAn, 2002): routes, bridges and
storages fit together as on the host.  What the first bits say of the kind of an address stays.
"""

from __future__ import annotations

import hashlib
import ipaddress
from dataclasses import dataclass

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_KEPT_4 = 8
_KEPT_4_LONG = 16
_LONG_4 = (169, 172, 192)
"""First octets below which private and link-local networks begin in the middle."""
_KEPT_6 = 16


@dataclass(frozen=True)
class AddressBook:
    """``key`` is new for each bundle: the same address is another one in the next bundle."""

    key: bytes

    def other(self, address: Address) -> Address:
        """Return the pseudonym of ``address``; loopback, multicast, masks and "any" name nobody and stay."""
        if is_anonymous(address):
            return address
        width = address.max_prefixlen
        value, result = int(address), 0
        kept = _kept_bits(address)
        for bit in range(width):
            plain = value >> (width - 1 - bit) & 1
            flip = 0 if bit < kept else self._flip(width, bit, value >> (width - bit))
            result = result << 1 | (plain ^ flip)
        return type(address)(result)

    def network(self, address: Address, length: int) -> Address:
        """Return the pseudonym of a network's address: no bit is set below its prefix."""
        other = self.other(address)
        width = address.max_prefixlen
        return type(address)(int(other) >> (width - length) << (width - length)) if 0 < length < width else other

    def _flip(self, width: int, bit: int, above: int) -> int:
        text = f"{width}/{bit}/{above:x}".encode()
        return hashlib.blake2s(text, key=self.key, digest_size=1).digest()[0] & 1


def is_anonymous(address: Address) -> bool:
    """Whether the address is the same on every host."""
    if address.is_loopback or address.is_multicast or address.is_unspecified:
        return True
    return isinstance(address, ipaddress.IPv4Address) and _is_mask(int(address))


def _is_mask(value: int) -> bool:
    """255.255.255.0: ones, then zeros."""
    inverse = value ^ 0xFFFFFFFF
    return value >> 24 == 0xFF and inverse & (inverse + 1) == 0


def _kept_bits(address: Address) -> int:
    if isinstance(address, ipaddress.IPv6Address):
        return _KEPT_6
    return _KEPT_4_LONG if int(address) >> 24 in _LONG_4 else _KEPT_4
