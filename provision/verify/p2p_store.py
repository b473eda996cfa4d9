"""Keep a verdict on P2P on the host it was measured on."""

from __future__ import annotations

import hashlib

from provision.errors import PvectlError
from provision.guest.record import PLACE, P2pRecord, Records, parse_records, render_records, with_record
from provision.remote.session import Session, Want

MODE = 0o600


def store(session: Session, vmid: int, record: P2pRecord) -> str:
    """Add a record to the host's file, atomically.  Returns why it could not be kept, empty where it was.

    A damaged file is left as it is: what it held may matter, and a person has to look.
    """
    if session.euid != 0:
        return f"the verdict is not recorded on {session.target}: writing {PLACE} there needs root"
    try:
        text, digest = _present(session)
        records: Records = parse_records(text, PLACE) if text is not None else {}
        new = with_record(records, vmid, record)
        if new != records:
            data = render_records(new, record.created).encode()
            session.write(PLACE, data, expect=digest, mode=MODE, uid=0, gid=0, make_parents=True)
    except PvectlError as error:
        return f"the verdict is not recorded on {session.target}: {error.message}"
    return ""


def _present(session: Session) -> tuple[str | None, str | None]:
    """Return text and SHA-256 of the file, None and None where there is none."""
    read = session.read([Want(kind="file", pattern=PLACE)])
    item = read[0].item if read else None
    if item is None or item.state == "absent":
        return None, None
    if item.state != "read":
        raise PvectlError(f"Unable to read {PLACE} on {session.target}: {item.state}", "look at it as root")
    return read[0].data.decode("utf-8", "replace"), hashlib.sha256(read[0].data).hexdigest()
