"""What a report does not show, each with its reason: a figure that is missing must not read as a good one."""

from __future__ import annotations

from collections.abc import Iterator

from provision.evidence import Unknown
from provision.guest.nccl import NcclAnswer, hop_fit
from provision.guest.verdict_model import P2pReport, PairVerdict
from provision.report.p2p_verdicts import names


def gaps(report: P2pReport) -> tuple[str, ...]:
    """Return one sentence for each."""
    return (*_pairs(report), *_kinds(report), *_collectives(report.nccl), *report.notes)


def _pairs(report: P2pReport) -> Iterator[str]:
    if report.level is None and report.pairs:
        yield "No data was sent between any GPUs; the verdicts are by the driver's status alone."
        return
    without: dict[str, list[PairVerdict]] = {}
    for pair in report.pairs:
        if not pair.figures.times:
            without.setdefault(pair.reason, []).append(pair)
    for reason, pairs in without.items():
        yield f"Times and rates with peer access on, {names(pairs, len(report.pairs))}: {reason}."


def _kinds(report: P2pReport) -> Iterator[str]:
    if report.level == "quick":
        yield "Reads of small copies, most sizes between, and every word of the memory: --quick leaves them out."
    if report.level is not None and len(report.pairs) > 1 and report.all_gb_per_s is None:
        yield "All pairs at once: fewer than two pairs work one by one, or the run did not come to its end."
    if report.pairs and all(pair.link == "NVLink" for pair in report.pairs):
        yield "P2P over PCIe, and a refusal by the driver: GPUs that are joined by NVLink cannot show either."
    if isinstance(report.fingerprint.host, Unknown):
        yield f"The host's part of the fingerprint: {report.fingerprint.host.unknown}."


def _collectives(nccl: NcclAnswer | None) -> Iterator[str]:
    if nccl is None:
        yield "Collectives: NCCL was not run."
        return
    if nccl.state != "ok":
        yield f"Collectives: {nccl.reason or nccl.state}."
    for run in nccl.runs:
        if run.state == "skipped":
            yield f"NCCL, {run.setting} with {run.count} GPUs: {run.reason}."
    for setting in dict.fromkeys(run.setting for run in nccl.runs if run.state == "ok"):
        fit = hop_fit(nccl, setting)
        if isinstance(fit, Unknown):
            yield f"Time of one hop: {fit.unknown}" + (f"; {fit.supply}." if fit.supply else ".")
            return
