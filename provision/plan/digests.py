"""SHA-256 of what a plan was made from.  ``apply`` computes the same before it acts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

ABSENT = "absent"
"""Stands for an object that did not exist."""


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text's UTF-8 bytes: a file's own digest where it is valid UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def mapping_digest(entries: Sequence[str] | None) -> str:
    """Return the digest of a mapping's entries in file order; :data:`ABSENT` for ``None``."""
    return ABSENT if entries is None else text_digest("\n".join(entries))


def vm_digest(config_text: str) -> str:
    """Return the digest of a VM's whole configuration file."""
    return text_digest(config_text)
