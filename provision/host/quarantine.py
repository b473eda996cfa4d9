"""GPUs of a host that did not come back from a stop: recorded on the host until somebody releases them.

Pure.  The record is a file of the host, so that every controller sees it and the doctor reads it with the rest.
"""

from __future__ import annotations

import json
from typing import Literal

from pydantic import ValidationError

from provision.envelope import dumps, unwrap, wrap
from provision.errors import PvectlError
from provision.evidence import Frozen

QUARANTINE_FILE = "/var/lib/pvectl/quarantine.json"

Fault = Literal["stop", "reset", "power", "start", "guest", "gsp", "gpus", "error"]
"""What failed: the guest's shutdown, the card's reset, its waking up, the VM's start, the guest's boot, the GPU's own
processor, the GPUs as the guest sees them; ``error`` is none of the GPU's doing."""


class Quarantined(Frozen):
    bdf: str
    vmid: int
    since: str
    """UTC, as the envelope writes it."""
    fault: Fault
    reason: str
    """One line: the message that says it."""
    boot_id: str
    """Boot of the host in which it was seen."""
    sure: bool = True
    """False where only one of several GPUs is meant and nothing tells which."""


def parse_quarantine(text: str, where: str) -> tuple[Quarantined, ...]:
    """Return the record.  Raises PvectlError where the file is damaged or newer."""
    try:
        data = unwrap(json.loads(text), "quarantine", source=where)
        return tuple(Quarantined.model_validate(row) for row in data["gpus"])
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        raise PvectlError(
            f"Unable to read {where}: it is not as pvectl writes it ({error})",
            "look at the file, and remove it where no GPU is in doubt",
        ) from error


def quarantine_text(gpus: tuple[Quarantined, ...]) -> str:
    return dumps(wrap("quarantine", {"gpus": [gpu.model_dump(mode="json") for gpu in gpus]}))
