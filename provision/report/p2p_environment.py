"""What the figures hold for, what the kernel said, what was not measured, and what follows."""

from __future__ import annotations

from collections.abc import Iterable

from provision.evidence import Frozen, Maybe, Unknown
from provision.guest.verdict_model import P2pReport, ReportGpu
from provision.report.p2p_gaps import gaps
from provision.report.p2p_markup import Content, Markup, lines, section, table, tag


def said(value: Maybe[object]) -> str:
    """Return a fact, or why it is not known."""
    if isinstance(value, Unknown):
        return f"not known: {value.unknown}"
    return "none" if value is None else str(value)


def environment(report: P2pReport) -> Markup:
    """Return guest, host and GPUs."""
    own = report.environment
    rows: list[tuple[str, Content]] = [
        ("Guest", report.guest if report.vmid is None else f"{report.guest} (VM {report.vmid})"),
        ("Measured", f"{report.created}, {_level(report)}"),
        ("Guest's kernel", own.kernel or "not known"),
        ("NVIDIA driver", f"{said(own.driver)}, module {own.module}"),
        ("CUDA", _cuda(own.cuda_version)),
        ("NCCL", "not run" if own.nccl is None else f"{own.nccl}, {own.nccl_library}"),
        ("Hypervisor", said(own.hypervisor)),
        ("Host", own.host or "not asked"),
        ("Host's kernel", said(own.host_kernel)),
        ("QEMU", said(own.qemu)),
        ("Fingerprint", tag("code", report.fingerprint.digest)),
    ]
    facts = tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in rows), class_="facts")
    return section("environment", "Environment", facts, _gpus(report.gpus), _fingerprint(report))


def _level(report: P2pReport) -> str:
    if report.level is None:
        return "nothing was sent"
    took = f" in {report.seconds:.1f} s" if report.seconds is not None else ""
    return f"{report.level}{took}"


def _cuda(version: Maybe[int]) -> str:
    return said(version) if isinstance(version, Unknown) else f"{version // 1000}.{version % 1000 // 10}"


def _gpus(gpus: Iterable[ReportGpu]) -> Markup:
    rows = (
        (
            gpu.index,
            tag("code", gpu.bdf),
            gpu.name or "not known",
            gpu.ids,
            gpu.vbios or "not known",
            gpu.gsp or "not known",
            said(gpu.clique),
            tag("code", gpu.uuid or "not known"),
            gpu.fault or "usable",
        )
        for gpu in gpus
    )
    head = ("GPU", "Address", "Name", "Id", "VBIOS", "GSP", "Clique", "UUID", "State")
    return table(head, rows, caption="GPUs, in CUDA's order of addresses")


def _fingerprint(report: P2pReport) -> Markup:
    host = report.fingerprint.host
    unread = [("host", said(host))] if isinstance(host, Unknown) else [*_parts("host's", host)]
    rows = [*_parts("guest's", report.fingerprint.guest), *unread]
    inner = tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in rows), class_="facts")
    return tag("details", tag("summary", "What the verdict holds for"), inner)


def _parts(whose: str, part: Frozen) -> Iterable[tuple[str, str]]:
    for name in type(part).model_fields:
        value = getattr(part, name)
        shown = ", ".join(map(str, value)) if isinstance(value, tuple) else said(value)
        yield f"{whose} {name}", shown or "none"


def advice(report: P2pReport) -> Markup:
    """Return what to set for NCCL, and why."""
    found = report.advice
    if isinstance(found, Unknown):
        words = f"What NCCL should be told is not known: {found.unknown}."
        supply = tag("p", tag("b", "To know it: "), found.supply) if found.supply else None
        return section("advice", "Advice", tag("p", words), supply)
    if not found:
        return section("advice", "Advice", tag("p", "NCCL's own choice is right: set no variable."))
    rows = ((tag("code", f"{each.name}={each.value}"), each.because) for each in found)
    return section("advice", "Advice", table(("Variable", "Because"), rows, caption="Variables to set for NCCL"))


def log(report: P2pReport) -> Markup:
    """Return the lines of the guest's kernel log."""
    new = _lines(report.new_log_lines, "The kernel said nothing about the GPUs during the measurement.")
    old = _lines(report.log_excerpts, "No line about the GPUs was read.")
    parts = (tag("h3", "During the measurement"), new, tag("h3", "Since boot"), old)
    return section("log", "Guest's kernel log", *parts)


def _lines(found: tuple[str, ...], nothing: str) -> Markup:
    if not found:
        return tag("p", nothing)
    return tag("pre", "\n".join(found), tabindex=0, aria_label="lines of the kernel log")


def not_measured(report: P2pReport) -> Markup:
    """Return what a reader could miss here, and why it is not here."""
    found = gaps(report)
    body = lines(found) if found else tag("p", "Everything was measured.")
    return section("gaps", "What was not measured, and why", body)
