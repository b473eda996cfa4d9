"""What was shown about P2P on a host's VMs, with the fingerprint that it holds for.

It lies on the host, in ``/var/lib/pvectl/p2p.json``, as the identities of its GPUs do: whoever plans for the host or
reads it sees the same, from whatever machine the measurement was made.  It holds no secret, and
``pvectl rollback --all`` removes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from pydantic import TypeAdapter, ValidationError

from provision.envelope import dumps, unwrap, wrap
from provision.errors import PvectlError
from provision.evidence import Frozen, Maybe
from provision.guest.fingerprint import Fingerprint, GuestPart, HostPart, guest_changes, host_changes
from provision.guest.verdict_model import P2pReport, Verdict

PLACE = "/var/lib/pvectl/p2p.json"
KEPT = 16
"""Records of one VM: the latest of each fingerprint, the oldest go first."""
FAILED: tuple[Verdict, ...] = ("WRONG_DATA", "HANG")
DECIDED: tuple[Verdict, ...] = ("PROVEN", *FAILED)


class SetRecord(Frozen):
    """One set of GPUs; ``ids`` is ``vvvv:dddd``, ``gpus`` are UUIDs."""

    ids: str
    gpus: tuple[str, ...]
    clique: int | None
    verdict: Verdict
    reason: str


class PairRecord(Frozen):
    """An ordered pair that failed; UUIDs."""

    ids: str
    source: str
    target: str
    verdict: Verdict
    reason: str


class P2pRecord(Frozen):
    """One measurement."""

    created: str
    level: str
    verdict: Verdict
    reason: str
    fingerprint: Fingerprint
    digest: str
    sets: tuple[SetRecord, ...] = ()
    failed_pairs: tuple[PairRecord, ...] = ()


Records = dict[int, tuple[P2pRecord, ...]]
"""By VM, the latest first."""
_RECORDS: TypeAdapter[Records] = TypeAdapter(Records)


def record_of(report: P2pReport) -> P2pRecord | None:
    """Return what is worth keeping; None where nothing was measured or a fault was put in on purpose."""
    if report.level is None or report.injected is not None or not report.pairs:
        return None
    named = {gpu.index: gpu.uuid or gpu.bdf for gpu in report.gpus}
    models = {gpu.index: gpu.ids for gpu in report.gpus}
    return P2pRecord(
        created=report.created,
        level=report.level,
        verdict=report.verdict,
        reason=report.reason,
        fingerprint=report.fingerprint,
        digest=report.fingerprint.digest,
        sets=tuple(
            SetRecord(
                ids=each.ids,
                gpus=tuple(named[index] for index in each.gpus),
                clique=each.clique,
                verdict=each.verdict,
                reason=each.reason,
            )
            for each in report.sets
        ),
        failed_pairs=tuple(
            PairRecord(
                ids=models[pair.source],
                source=named[pair.source],
                target=named[pair.target],
                verdict=pair.verdict,
                reason=pair.reason,
            )
            for pair in report.pairs
            if pair.verdict in FAILED
        ),
    )


def parse_records(text: str, source: str) -> Records:
    """Return the records.  Raises PvectlError for a damaged file or a newer one."""
    try:
        return _RECORDS.validate_python(unwrap(json.loads(text), "p2p-record", source=source)["vms"])
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        raise PvectlError(
            f"Unable to read {source}: it is not as pvectl writes it",
            f"remove {PLACE} on the host and prove P2P again: pvectl p2p",
        ) from error


def render_records(records: Mapping[int, Sequence[P2pRecord]], created: str) -> str:
    values = {str(vmid): [one.model_dump(mode="json") for one in records[vmid]] for vmid in sorted(records)}
    return dumps(wrap("p2p-record", {"vms": values}, created=created))


def with_record(records: Records, vmid: int, record: P2pRecord) -> Records:
    """Return the records with one more; it takes the place of those of the VM with the same fingerprint.

    What was proven or failed stands until the same parts are measured to the end again: a look at fewer pairs, or at
    busy GPUs, takes nothing back.
    """
    old = records.get(vmid, ())
    same = [one for one in old if one.digest == record.digest]
    if record.verdict not in DECIDED and any(one.verdict in DECIDED for one in same):
        return records
    rest = [one for one in old if one.digest != record.digest]
    return {**records, vmid: (record, *rest)[:KEPT]}


class Failure(Frozen):
    """P2P of one model that went wrong for what the host is now."""

    verdict: Verdict
    reason: str
    created: str
    digest: str


def failure_of(
    records: Sequence[P2pRecord], now: Maybe[HostPart], ids: str, guest: GuestPart | None = None
) -> Failure | None:
    """Return the recorded failure of GPUs of this model that holds now, None where there is none.

    Cliques are not compared, for the question is whether to give them.  ``guest`` is the guest as it is; it is not
    seen from the host, and without it the latest record of the VM stands for it: a new driver counts once it was
    measured.
    """
    if not records:
        return None
    inside = guest or records[0].fingerprint.guest
    for one in records:
        is_host = not host_changes(one.fingerprint.host, now, with_cliques=False)
        if not is_host or guest_changes(one.fingerprint.guest, inside, with_cliques=False):
            continue
        for verdict, reason in _failures(one, ids):
            return Failure(verdict=verdict, reason=reason, created=one.created, digest=one.digest)
        if one.verdict == "PROVEN":
            return None
    return None


def _failures(record: P2pRecord, ids: str) -> Iterator[tuple[Verdict, str]]:
    every: tuple[SetRecord | PairRecord, ...] = (*record.sets, *record.failed_pairs)
    for each in every:
        if each.ids == ids and each.verdict in FAILED:
            yield each.verdict, each.reason
