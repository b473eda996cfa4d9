"""What a plan says of GPUs that did not come back: it plans them like any other, and names them."""

from __future__ import annotations

from collections.abc import Iterator

from provision.errors import PvectlError
from provision.host.model import HostModel
from provision.host.quarantine import QUARANTINE_FILE, parse_quarantine


def quarantine_warnings(model: HostModel) -> Iterator[str]:
    """Yield one sentence for each GPU in quarantine, or one that says that the record cannot be read."""
    state = model.files.get(QUARANTINE_FILE)
    if state is None or not isinstance(state.content, str):
        return
    try:
        entries = parse_quarantine(state.content, QUARANTINE_FILE)
    except PvectlError as error:
        yield error.message
        return
    for entry in entries:
        yield (
            f"{entry.bdf} is in quarantine since {entry.since}: it did not come back after VM {entry.vmid} was stopped "
            f"({entry.reason}); start no VM with it before it is well, then: pvectl verify --release {entry.bdf}"
        )
