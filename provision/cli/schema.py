"""``pvectl schema``: print the JSON Schema of a file."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from provision.cli.output import answer
from provision.envelope import KINDS, dumps
from provision.errors import UsageError

SHOWN = ("inventory", "capture", "model", "finding", "plan", "receipt", "report", "identity", "p2p")
"""Kinds in the order of the work: ``finding`` is what the doctor says, ``report`` what verify says, ``p2p`` what
p2p says."""


def command(
    kind: Annotated[str | None, typer.Argument(help=f"One of: {', '.join(SHOWN)}.")] = None,
) -> int:
    """Print the JSON Schema of a file that pvectl reads or writes.

    Examples:
      pvectl schema inventory > pvectl.schema.json
      pvectl schema plan

    Exit codes: 0 printed, 64 there is no such kind.
    """
    if kind is None:
        answer("\n".join(SHOWN))
        return 0
    answer(dumps(schema_of(kind)))
    return 0


def schema_of(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of ``kind``; all but the inventory stand in their envelope.  Raises UsageError."""
    if kind not in SHOWN:
        raise UsageError(
            f"Unable to print the schema of {kind!r}: there is no such kind", f"one of: {', '.join(SHOWN)}"
        )
    from pydantic import TypeAdapter

    schema = TypeAdapter(_type_of(kind)).json_schema(mode="validation" if kind == "inventory" else "serialization")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"pvectl.{kind}/{KINDS[kind]}"}
    return head | (schema if kind == "inventory" else _in_envelope(kind, schema))


def _in_envelope(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    definitions = data.pop("$defs", {})
    return {
        "type": "object",
        "title": f"pvectl {kind}",
        "properties": {
            "schema": {"const": f"pvectl.{kind}/{KINDS[kind]}"},
            "version": {"type": "string"},
            "created": {"type": "string", "format": "date-time"},
            "data": data,
        },
        "required": ["schema", "version", "created", "data"],
        "$defs": definitions,
    }


def _type_of(kind: str) -> Any:
    """Return what stands as data in a file of this kind."""
    from pydantic import create_model

    from provision.apply.records import Event
    from provision.capture.model import Manifest
    from provision.doctor.finding import Report
    from provision.guest.verdict_model import P2pReport
    from provision.host.model import HostModel
    from provision.inventory.models import Inventory
    from provision.pci.model import Identity
    from provision.plan.model import Plan
    from provision.verify.facts import VerifyReport

    types: dict[str, Any] = {
        "inventory": Inventory,
        "capture": create_model("CaptureManifest", manifest=(Manifest, ...), items=(int, ...), index_sha256=(str, ...)),
        "model": HostModel,
        "finding": Report,
        "plan": Plan,
        "receipt": Event,
        "report": VerifyReport,
        "identity": create_model("Identities", devices=(dict[str, Identity], ...)),
        "p2p": P2pReport,
    }
    return types[kind]
