"""Trust in the certificate of Proxmox' API, before anything secret is sent."""

from __future__ import annotations

import hashlib
import re
import ssl
from typing import Any

from requests.adapters import HTTPAdapter

from provision.errors import UsageError

_FINGERPRINT = re.compile(r"(?:[0-9a-fA-F]{2}:){31}[0-9a-fA-F]{2}|[0-9a-fA-F]{64}")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def fingerprint_of(pem: str) -> str:
    """Return the SHA-256 of the first certificate of ``pem`` as 64 hex digits.  Raises ``ValueError`` without one."""
    first = _CERTIFICATE.search(pem)
    if first is None:
        raise ValueError("there is no certificate in it")
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(first[0])).hexdigest()


def normal_fingerprint(text: str) -> str:
    """Return a SHA-256 fingerprint as 64 lower-case hex digits.  Raises :class:`UsageError` for anything else."""
    if _FINGERPRINT.fullmatch(text.strip()) is None:
        raise UsageError(
            f"Unable to use {text!r} as a fingerprint: it is no SHA-256 of a certificate",
            "copy it from `pvenode cert info`, or openssl x509 -noout -fingerprint -sha256 -in pve-ssl.pem",
        )
    return text.strip().replace(":", "").lower()


class PinnedAdapter(HTTPAdapter):
    """Connections that end in the handshake unless the peer shows exactly this certificate."""

    def __init__(self, fingerprint: str) -> None:
        self._fingerprint = fingerprint
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, assert_fingerprint=self._fingerprint, assert_hostname=False, **kwargs)
