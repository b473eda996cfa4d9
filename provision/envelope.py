"""The envelope of every file and JSON output.

``{"schema": "pvectl.<kind>/<int>", "version": ..., "created": "<UTC>", "data": {...}}``.
A reader takes its own version of a kind and older ones, and refuses newer ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from provision import __version__
from provision.errors import PvectlError

KINDS: Mapping[str, int] = {
    "inventory": 1,
    "capture": 1,
    "model": 1,
    "plan": 1,
    "run": 1,
    "receipt": 1,
    "finding": 1,
    "report": 1,
    "verdict": 1,
    "identity": 1,
    "mapping": 1,
    "auth": 1,
    "error": 1,
    "summary": 1,
    "lab": 1,
    "paths": 1,
    "moves": 1,
    "p2p": 1,
    "p2p-record": 1,
    "explanation": 1,
    "cycles": 1,
    "quarantine": 1,
}


def wrap(kind: str, data: Any, *, created: str | None = None) -> dict[str, Any]:
    """Return ``data`` (JSON values) in its envelope.  ``created`` defaults to now, in UTC."""
    stamp = created or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"schema": f"pvectl.{kind}/{KINDS[kind]}", "version": __version__, "created": stamp, "data": data}


def unwrap(document: Any, kind: str, *, source: str, error: type[PvectlError] = PvectlError) -> Any:
    """Return the data of ``document`` after checking its schema.

    ``source`` names the file in messages.  Raises ``error`` when the document is of
    another kind or of a newer version than this program knows.
    """
    schema = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(schema, str) or not schema.startswith(f"pvectl.{kind}/"):
        raise error(
            f"Unable to read {source}: it is not a pvectl {kind} (schema is {schema!r})",
            f"give a file written by pvectl whose schema is pvectl.{kind}/{KINDS[kind]}",
        )
    number = schema.rsplit("/", 1)[1]
    if not number.isdecimal():
        raise error(f"Unable to read {source}: schema {schema!r} has no version number", "the file is damaged")
    if int(number) > KINDS[kind]:
        raise error(
            f"Unable to read {source}: it has schema {schema}, newer than pvectl {__version__} "
            f"knows (pvectl.{kind}/{KINDS[kind]})",
            "upgrade pvectl on this machine to the version that wrote the file",
        )
    if "data" not in document:
        raise error(f"Unable to read {source}: it has no data", "the file is damaged or was cut")
    return document["data"]


def dumps(document: Any) -> str:
    """Return JSON as pvectl writes it: two spaces, UTF-8, keys in the order given."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
