"""Lines of the kernel's log since boot that speak of the GPUs or of their way through PCIe.

Sources, in order: /dev/kmsg (root, or ``kernel.dmesg_restrict=0``), then the journal, which members of
the group systemd-journal may read.  What neither gives is an error with its reason, never an empty log.
"""

from __future__ import annotations

import os
import re
import subprocess
from typing import Any

from provision.guest.onboard.files import Files

KMSG = "/dev/kmsg"
WANTED = re.compile(
    r"NVRM|nvidia|nouveau|\bnova|Xid|AER:|PCIe Bus Error|request_free_mem_region|BAR \d+.*(assign|space)"
)
KEEP = 400
"""The first and the last of them matter: the first error explains the later ones."""
JOURNAL = ("journalctl", "-k", "-b", "--no-pager", "-q", "-o", "short-monotonic")
JOURNAL_DEADLINE = 20.0


def kernel_log(files: Files) -> dict[str, Any]:
    """Return ``{"source", "lines", "left_out"}`` or ``{"error"}``; a line is ``[seconds] text``."""
    try:
        lines, source = _kmsg(files), KMSG
    except OSError as error:
        why = f"{KMSG}: {error.strerror}"
        if not files.is_real:
            return {"error": why}
        found = _journal()
        if isinstance(found, str):
            return {"error": f"{why}; {found}: read it as root"}
        lines, source = found, "journal"
    wanted = [line for line in lines if WANTED.search(line)]
    kept = wanted if len(wanted) <= KEEP else wanted[: KEEP // 2] + wanted[-KEEP // 2 :]
    return {"source": source, "lines": kept, "left_out": len(wanted) - len(kept)}


def _kmsg(files: Files) -> list[str]:
    """Read every record that is there: the kernel gives one for each read and EAGAIN after the last."""
    parts: list[bytes] = []
    handle = os.open(files.root + KMSG, os.O_RDONLY | os.O_NONBLOCK)
    try:
        while True:
            try:
                data = os.read(handle, 8192)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # the oldest record was overwritten meanwhile
            if not data:
                break
            parts.append(data)
    finally:
        os.close(handle)
    records = b"".join(parts).decode("utf-8", "replace").split("\n")
    return [line for record in records for line in _record(record)]


def _record(text: str) -> list[str]:
    """``6,339,5140900,-;text`` with the time in microseconds; lines that begin with a blank go with a record."""
    head, semicolon, line = text.partition(";")
    parts = head.split(",")
    if text.startswith(" ") or not semicolon or len(parts) < 3 or not parts[2].isdigit():
        return []
    return [f"[{int(parts[2]) / 1e6:12.6f}] {line}"]


def _journal() -> list[str] | str:
    try:
        done = subprocess.run(JOURNAL, capture_output=True, timeout=JOURNAL_DEADLINE, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return f"journalctl: {error}"
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode or not text.strip():
        return f"journalctl ended with {done.returncode} and gave {len(text)} characters"
    return text.splitlines()
