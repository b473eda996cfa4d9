"""The report of a proof as a table."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from provision.verify.facts import Result, VerifyReport

_MARK = {"pass": ("pass", "green"), "fail": ("FAIL", "red"), "undecided": ("????", "yellow")}
_WIDTH = 100
_INDENT = 43


def report_text(report: VerifyReport, style: Callable[[str, str], str] = lambda text, _name: text) -> str:
    """Return the table, the P2P matrices and the sum.  Equal passing rows of many devices are one row."""
    lines = [f"Proof of {report.host}", ""]
    for note in report.notes:
        lines += [*textwrap.wrap(f"Note: {note}", _WIDTH), ""]
    for result in _folded(report.results):
        lines += _rows(result, style)
    for vmid, matrix in report.matrices.items():
        lines += [
            "",
            f"P2P write status in guest {vmid} (a status is a grant, no proof):",
            textwrap.indent(matrix, "  "),
        ]
    return "\n".join([*lines, "", _sum(report)]) + "\n"


def _rows(result: Result, style: Callable[[str, str], str]) -> list[str]:
    mark, color = _MARK[result.judgement.state]
    head = f"{result.check:<17}{result.subject:<18}"
    body = textwrap.wrap(result.judgement.text, _WIDTH - _INDENT - 1) or [""]
    rows = [f"  {style(mark, color)}  {head}{body[0]}"]
    rows += [" " * _INDENT + line for line in body[1:]]
    if result.judgement.hint and result.judgement.state != "pass":
        hint = textwrap.wrap("hint: " + result.judgement.hint, _WIDTH - _INDENT - 1)
        rows += [" " * _INDENT + line for line in hint]
    return rows


def _folded(results: tuple[Result, ...]) -> list[Result]:
    folded: list[Result] = []
    for result in results:
        last = folded[-1] if folded else None
        if last and _same(last, result):
            count = int(last.subject.split()[0]) if last.subject.endswith(_noun(last.check)) else 1
            folded[-1] = last.model_copy(update={"subject": f"{count + 1} {_noun(result.check)}"})
        else:
            folded.append(result)
    return folded


def _noun(check: str) -> str:
    return "mappings" if check.startswith("mapping") else "devices"


def _same(one: Result, other: Result) -> bool:
    return one.check == other.check and one.judgement == other.judgement and one.judgement.state == "pass"


def _sum(report: VerifyReport) -> str:
    states = [result.judgement.state for result in report.results]
    passed, failed, open_ = (states.count(name) for name in ("pass", "fail", "undecided"))
    text = f"{passed} passed, {failed} failed, {open_} undecided"
    return {
        0: f"{text}: host and guest are as planned.",
        7: f"{text}: the result is NOT as planned.",
        8: f"{text}: what is undecided is not proven.",
    }[report.exit_code]
