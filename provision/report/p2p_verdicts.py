"""What the report comes to: the sentence that matters, the matrix of verdicts, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from provision.guest.verdict_model import MEANING, P2pReport, PairVerdict, Verdict
from provision.host.text_layout import count
from provision.report.p2p_markup import Markup, join, lines, section, table, tag

LETTERS: Final[dict[Verdict, str]] = {
    "PROVEN": "P",
    "GRANTED_UNPROVEN": "G",
    "NOT_GRANTED": "N",
    "IMPOSSIBLE": "I",
    "WRONG_DATA": "W",
    "HANG": "H",
    "UNKNOWN": "U",
}
HEADLINES: Final[dict[Verdict, str]] = {
    "PROVEN": "Proven: data arrived between all GPUs, and collectives over P2P were right",
    "GRANTED_UNPROVEN": "Granted, not proven: keep P2P off",
    "NOT_GRANTED": "Not granted: transfers go through the guest's memory",
    "IMPOSSIBLE": "Not possible with these GPUs as they are now",
    "WRONG_DATA": "WRONG DATA: P2P is granted, and data is lost or changed. Do not use it",
    "HANG": "HANG: P2P is granted, and a transfer did not come to its end. Do not use it",
    "UNKNOWN": "Unknown: whether P2P works could not be told",
}
DEFAULT_REMEDY: Final[dict[Verdict, str]] = {
    "PROVEN": "Nothing. Measure again after a change of anything that the verdict holds for.",
    "GRANTED_UNPROVEN": "Set NCCL_P2P_DISABLE=1 until it is proven.",
    "NOT_GRANTED": "Nothing, if P2P is to be off.",
    "IMPOSSIBLE": "Nothing: P2P cannot be had here.",
    "WRONG_DATA": "Set NCCL_P2P_DISABLE=1 now.",
    "HANG": "Set NCCL_P2P_DISABLE=1 now.",
    "UNKNOWN": "Repair what is named here, and measure again.",
}
NAMED_PAIRS: Final = 12
SHOWN_EVIDENCE: Final = 12


def badge(verdict: Verdict, *, is_named: bool = False) -> Markup:
    """Return letter and shape of a verdict, with its name in sight or for a screen reader only."""
    letter = tag("span", tag("span", LETTERS[verdict], aria_hidden="true"), class_=f"v v{LETTERS[verdict]}")
    if is_named:
        return tag("span", letter, tag("span", name_of(verdict), class_="name"), class_="named")
    return join((letter, tag("span", name_of(verdict), class_="away")))


def name_of(verdict: Verdict) -> str:
    return verdict.replace("_", " ").lower() if verdict not in ("WRONG_DATA", "HANG") else verdict.replace("_", " ")


def banner(report: P2pReport) -> Markup:
    """Return the heading of the page with what to do."""
    parts: list[Markup] = []
    if report.injected:
        words = f"A fault ({report.injected}) was put in on purpose: nothing here speaks of the guest itself."
        parts.append(tag("p", words, class_="warning"))
    if report.control_fault:
        parts.append(tag("p", f"Without P2P too: {report.control_fault}.", class_="warning"))
    if report.while_busy:
        words = "Other processes used the GPUs meanwhile: times and rates are theirs too."
        parts.append(tag("p", words, class_="warning"))
    remedy = report.remedy or DEFAULT_REMEDY[report.verdict]
    return tag(
        "div",
        tag("p", badge(report.verdict), tag("strong", HEADLINES[report.verdict]), class_="headline"),
        tag("p", report.reason),
        tag("p", tag("b", "What to do: "), remedy),
        tag("p", expectation(report), class_="quiet"),
        *parts,
        class_=f"banner b{LETTERS[report.verdict]}",
    )


def expectation(report: P2pReport) -> str:
    """Say whether this is what the inventory wants."""
    wish = f"policies.p2p: {report.policy}" if report.policy else "no policy was given"
    return f"{wish}; this is {'as' if report.as_expected else 'not as'} it should be (exit code {report.exit_code})."


def verdicts(report: P2pReport) -> Markup:
    """Return the section of the verdicts."""
    if not report.pairs:
        return section("verdicts", "Verdicts", tag("p", "There is no pair of GPUs."))
    return section(
        "verdicts",
        "Verdicts",
        tag("div", _matrix(report), _legend(report), class_="beside"),
        _sets(report),
        _pairs(report),
    )


def _matrix(report: P2pReport) -> Markup:
    head = (tag("th", gpu.index, scope="col", title=gpu.bdf) for gpu in report.gpus)
    rows = []
    for one in report.gpus:
        cells = (_matrix_cell(report.pair(one.index, two.index)) for two in report.gpus)
        rows.append(tag("tr", tag("th", f"{one.index} ", tag("code", one.bdf), scope="row"), *cells))
    caption = tag("caption", "Row: the GPU that writes and reads; column: the GPU whose memory it is")
    first = tag("tr", tag("td", tag("span", "from, to", class_="away")), *head)
    kind = "matrix mixed" if len({pair.link for pair in report.pairs}) > 1 else "matrix"
    return tag("table", caption, tag("thead", first), tag("tbody", *rows), class_=kind)


def _matrix_cell(pair: PairVerdict | None) -> Markup:
    if pair is None:
        return tag("td", class_="self")
    return tag("td", badge(pair.verdict), class_=pair.link.lower(), title=f"{pair.link}: {pair.reason}"[:200])


def _legend(report: P2pReport) -> Markup:
    rows = []
    for verdict in LETTERS:
        pairs = sum(pair.verdict == verdict for pair in report.pairs)
        term = tag("dt", badge(verdict, is_named=True), f" ({count(pairs, 'pair')})")
        if pairs:
            rows.append(tag("div", term, tag("dd", MEANING[verdict])))
    links = sorted({pair.link for pair in report.pairs})
    line = f"All pairs are joined by {links[0]}." if len(links) == 1 else "Double frame: NVLink. Others: PCIe."
    return tag("div", tag("dl", *rows, class_="meanings"), tag("p", line), class_="side")


def _sets(report: P2pReport) -> Markup | None:
    if not report.sets:
        return None
    rows = (
        (
            ", ".join(map(str, each.gpus)),
            badge(each.verdict, is_named=True),
            each.ids,
            "none" if each.clique is None else each.clique,
            _reasons(each.reason, each.remedy),
        )
        for each in report.sets
    )
    head = ("GPUs", "Verdict", "Model", "Clique", "Why, and what to do")
    return table(head, rows, caption="GPUs that are to work together", kind="plain why")


def _reasons(reason: str, remedy: str) -> Markup:
    return join((reason, Markup("<br>") if remedy else None, tag("em", remedy) if remedy else None))


def _pairs(report: P2pReport) -> Markup:
    """Pairs of which the same is to be said stand in one row."""
    groups: dict[tuple[object, ...], list[PairVerdict]] = {}
    for pair in report.pairs:
        same = (pair.verdict, pair.reason, pair.remedy, pair.link, tuple(sorted(pair.status.items())))
        groups.setdefault((*same, pair.transports, pair.control_transports), []).append(pair)
    rows = (_pair_row(pairs, len(report.pairs)) for pairs in groups.values())
    head = ("Pairs", "Verdict", "Link", "NVML's status", "NCCL, P2P allowed", "NCCL, P2P off", "Why, and what to do")
    return table(head, rows, caption="Why, pair by pair", kind="plain why")


def _pair_row(pairs: Sequence[PairVerdict], every: int) -> tuple[Markup | str, ...]:
    first = pairs[0]
    return (
        names(pairs, every),
        badge(first.verdict, is_named=True),
        first.link,
        ", ".join(f"{name} {status}" for name, status in first.status.items()) or "not known",
        ", ".join(first.transports) or "not seen",
        ", ".join(first.control_transports) or "not seen",
        join((_reasons(first.reason, first.remedy), _evidence(pairs))),
    )


def names(pairs: Sequence[PairVerdict], every: int) -> str:
    """Return ``0→1, 1→0``, or how many they are."""
    if len(pairs) == every > 2:
        return f"all {every}"
    said = ", ".join(f"{pair.source}→{pair.target}" for pair in pairs[:NAMED_PAIRS])
    return f"{said} and {len(pairs) - NAMED_PAIRS} more" if len(pairs) > NAMED_PAIRS else said


def _evidence(pairs: Sequence[PairVerdict]) -> Markup | None:
    if pairs[0].verdict == "PROVEN":
        return None
    seen: dict[str, list[PairVerdict]] = {}
    for pair in pairs:
        for line in pair.evidence:
            if line not in pair.reason:
                seen.setdefault(line, []).append(pair)
    shown = [f"{names(own, len(pairs))}: {line}" for line, own in list(seen.items())[:SHOWN_EVIDENCE]]
    more = [f"{len(seen) - SHOWN_EVIDENCE} more lines are in the JSON"] if len(seen) > SHOWN_EVIDENCE else []
    return lines([*shown, *more]) if shown else None
