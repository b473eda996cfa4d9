"""identity.json on the host: who each GPU is, whatever address it has.  The authority for repair.

``{"devices": {"0000:41:00.0": {"ids": ..., "subsystem_ids": ..., "dsn": ..., "path": ...}}}`` in the
envelope; the address is the one that the device had when it was recorded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import TypeAdapter, ValidationError

from provision.apply import places
from provision.envelope import dumps, unwrap, wrap
from provision.errors import PvectlError
from provision.evidence import Unknown
from provision.host.model import HostModel
from provision.pci.identity import identity
from provision.pci.model import Identity
from provision.plan.model import Plan

_DEVICES: TypeAdapter[dict[str, Identity]] = TypeAdapter(dict[str, Identity])


def parse_identities(data: bytes, source: str) -> dict[str, Identity]:
    """Return the recorded devices by address.  Raises PvectlError for a damaged file or a newer one."""
    try:
        document = json.loads(data)
        return _DEVICES.validate_python(unwrap(document, "identity", source=source)["devices"])
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        raise PvectlError(
            f"Unable to read {source}: it is not as pvectl writes it",
            f"restore {places.IDENTITY} from a copy, or remove it to record the devices anew",
        ) from error


def render_identities(devices: Mapping[str, Identity], created: str) -> str:
    values = {bdf: devices[bdf].model_dump(mode="json") for bdf in sorted(devices)}
    return dumps(wrap("identity", {"devices": values}, created=created))


def identities_of(plan: Plan, model: HostModel) -> tuple[dict[str, Identity], tuple[str, ...]]:
    """Return who the plan's GPUs are, and a line for each that could not be told."""
    known: dict[str, Identity] = {}
    notes = []
    for row in plan.gpus:
        function = model.function(row.bdf)
        found = identity(function, model.pci) if function else Unknown(unknown="it is not there")
        if isinstance(found, Unknown):
            notes.append(f"identity of {row.bdf} is not recorded: {found.unknown}")
        else:
            known[row.bdf] = found
    return known, tuple(notes)
