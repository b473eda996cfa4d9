"""What ``pvectl capture --share`` writes and says: what was replaced, and whether the bundle still tells the same."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from provision.errors import CaptureError

if TYPE_CHECKING:
    from provision.capture.model import Capture
    from provision.capture.share import Bundle

ARCHIVES = (".tar.gz", ".tgz")


def default_path() -> Path:
    """A name without the host's."""
    return Path(f"pvectl-bundle-{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}.tar.gz")


def keep_table(bundle: Bundle, path: Path) -> None:
    """Write the table of pseudonyms for the owner alone (mode 0600).  Raises CaptureError."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(bundle.table, file, indent=1, sort_keys=True, ensure_ascii=False)
            file.write("\n")
    except OSError as error:
        raise CaptureError(
            f"Unable to write {path}: {error.strerror or error}", "choose a name that does not exist"
        ) from error


def differences(before: Capture, after: Capture) -> tuple[str, ...]:
    """Return the rules of which doctor says another number of findings, or another severity, in the bundle."""
    one, other = _said(before), _said(after)
    return tuple(sorted({f"{rule} ({severity})" for rule, severity, _ in (one - other) + (other - one)}))


def _said(capture: Capture) -> Counter[tuple[str, str, int]]:
    from provision.doctor.engine import diagnose
    from provision.host.assemble import assemble

    report = diagnose(assemble(capture))
    found = [(finding.rule, finding.severity, len(finding.subjects)) for finding in report.findings]
    return Counter([*found, *((one.rule, "undecided", 0) for one in report.undecidable)])


def summary(bundle: Bundle, path: Path, differ: tuple[str, ...], table: Path | None) -> dict[str, object]:
    """Return what was shared as JSON values."""
    return {
        "file": str(path),
        "replaced": bundle.replaced,
        "removed": bundle.removed,
        "doctor_differs": list(differ),
        "table": None if table is None else str(table),
        "next": _next(path),
    }


def summary_text(bundle: Bundle, path: Path, differ: tuple[str, ...], table: Path | None) -> str:
    """Return how many things of each kind were replaced and removed, and what to do before sending it."""
    size = sum(map(len, bundle.capture.blobs.values()))
    facts = sum(item.state == "read" for item in bundle.capture.items)
    lines = [
        f"a bundle to share: {facts} facts, {size / 1024:.0f} KiB, saved in {path}",
        "replaced:",
    ]
    lines += [f"  {count:>5}  {kind}" for kind, count in bundle.replaced.items()]
    lines += ["removed:", *(f"  {count:>5}  {kind}" for kind, count in sorted(bundle.removed.items()))]
    lines.append("kept: PCI addresses and ids, IOMMU groups, kernel parameters, sizes, versions")
    if differ:
        lines.append(f"note: doctor says another thing of the bundle than of the host: {', '.join(differ)}")
    else:
        lines.append("doctor says the same of the bundle as of the host")
    if table is not None:
        lines.append(f"the table of pseudonyms is in {table}: never send it")
    return "\n".join([*lines, "", f"Next: look at it before you send it: {_next(path)}"])


def _next(path: Path) -> str:
    from provision.remote.quoting import join

    return join(("pvectl", "doctor", "--from", str(path)))
