"""Runs the doctor over the public files and compares what it says with the table of expectations.

    PVECTL_CORPUS=FOLDER python tests/doctor/corpus/score.py [--missed] [--said FILE]

For each category it prints how many expectations were met (right), how many were not (missed), and how many
findings are false: an error that is expected nowhere in the file, or what the table forbids.  A false error on a
healthy file counts twice.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from provision.doctor.engine import diagnose
from provision.doctor.finding import Finding, Report, Undecidable
from provision.doctor.urgency import SEVERITIES
from provision.host.from_documents import model_of
from provision.readers.document import Document
from provision.readers.recognize import documents

HERE = Path(__file__).resolve().parent
_NAMES = runpy.run_path(str(HERE.parent / "catalogue.py"))
OURS: dict[str, tuple[str, ...]] = {**_NAMES["CATALOGUE"]}
for _name, _ids in _NAMES["ALIASES"].items():
    OURS[_name] = (*OURS.get(_name, ()), *_ids)


class Verdict(NamedTuple):
    """What became of one file."""

    file: str
    right: int
    missed: tuple[str, ...]
    false: tuple[str, ...]
    weight: int
    """Sum of the false findings, those on a healthy file twice."""


def table() -> list[dict[str, Any]]:
    """Return the rows of the first version with the later changes in them."""
    rows = {row["file"]: row for row in yaml.safe_load((HERE / "expected.yaml").read_text("utf-8"))}
    for change in yaml.safe_load((HERE / "changes.yaml").read_text("utf-8")) or ():
        rows[change["file"]] = {**rows[change["file"]], **{k: v for k, v in change.items() if k != "reason"}}
    return list(rows.values())


def corpus() -> Path | None:
    folder = os.environ.get("PVECTL_CORPUS", "")
    return Path(folder) if folder and Path(folder).is_dir() else None


def examine(root: Path, *files: str) -> Report:
    """Return what the doctor says of these files together, as ``doctor --from`` does."""
    found: list[Document] = []
    for file in files:
        text = (root / file).read_bytes().decode("utf-8", "replace")
        found += documents(file, text)[0]
    return diagnose(model_of(found), found)


def judge(root: Path, row: dict[str, Any]) -> Verdict:
    """Compare one file with its row."""
    alone = examine(root, row["file"])
    right, missed = 0, []
    for wanted in row.get("expect", ()):
        report = examine(root, row["file"], wanted["with"]) if "with" in wanted else alone
        if is_met(wanted, report):
            right += 1
        else:
            missed.append(f"{wanted['severity']} {'/'.join(wanted['ids'])}: {wanted['says']}")
    false = tuple(_false(row, alone))
    is_healthy = row["verdict"] == "healthy"
    if is_healthy and not false:
        right += 1
    return Verdict(row["file"], right, tuple(missed), false, len(false) * (2 if is_healthy else 1))


def is_met(wanted: dict[str, Any], report: Report) -> bool:
    """Whether findings of one of the rules, as severe as wanted, name every word and subject together."""
    ids = _resolved(wanted["ids"])
    if wanted.get("undecided"):
        said: list[Finding | Undecidable] = [one for one in report.undecidable if one.rule in ids]
    else:
        both = (*report.findings, *report.absorbed)
        said = [one for one in both if one.rule in ids and one.severity == wanted["severity"]]
    text = "\n".join(_text(one) for one in said)
    return bool(said) and all(_names(word, text) for word in (*wanted.get("words", ()), *wanted.get("subjects", ())))


def _resolved(ids: Iterable[str]) -> set[str]:
    return {ours for name in ids for ours in (name, *OURS.get(name, ()))}


def _false(row: dict[str, Any], report: Report) -> Iterator[str]:
    expected = {ours for wanted in row.get("expect", ()) for ours in _resolved(wanted["ids"])}
    told: list[Finding] = []
    for finding in report.findings:
        if finding.severity == "error" and finding.rule not in expected:
            told.append(finding)
            yield f"error {finding.rule}: {finding.summary}"
    for rule in row.get("forbid", ()):
        worse = SEVERITIES[: SEVERITIES.index(rule["severity"]) + 1]
        asked = expected if "more_than" not in rule else set()
        hits = [
            f
            for f in report.findings
            if f.severity in worse and f not in told and f.rule not in asked and _is_forbidden(rule, f)
        ]
        if len(hits) > rule.get("more_than", 0):
            yield f"forbidden {rule}: {hits[0].rule}: {hits[0].summary}"
    for crash in report.crashed:
        yield f"crash in {crash.rule}: {crash.error}"


def _is_forbidden(rule: dict[str, Any], finding: Finding) -> bool:
    """A finding may quote anything as evidence; what it claims stands in its summary and consequence."""
    claim = f"{finding.summary}\n{finding.consequence}"
    subjects = rule.get("subjects", ())
    return all(_names(word, claim) for word in rule.get("words", ())) and (
        not subjects or any(subject in finding.subjects for subject in subjects)
    )


def _text(one: Finding | Undecidable) -> str:
    if isinstance(one, Undecidable):
        return f"unknown: {one.missing}\n{one.supply}"
    quoted = [f"{evidence.source} {evidence.excerpt}" for evidence in one.evidence]
    return "\n".join([*one.subjects, one.summary, one.consequence, *one.remedy, *quoted])


def _names(word: str, text: str) -> bool:
    return str(word).lower() in text.lower()


def scores(root: Path) -> dict[str, list[Verdict]]:
    """Return the verdicts by category, the first folder of each file."""
    found: dict[str, list[Verdict]] = {}
    for row in table():
        found.setdefault(row["file"].split("/")[0], []).append(judge(root, row))
    return found


def summary(found: dict[str, list[Verdict]]) -> str:
    """Return the table that is printed, with the share of all expectations that were met in its last line."""
    lines = [f"{'category':<14}{'right':>7}{'missed':>8}{'false':>7}"]
    for name, verdicts in (*sorted(found.items()), ("all", [v for some in found.values() for v in some])):
        right, missed = sum(v.right for v in verdicts), sum(len(v.missed) for v in verdicts)
        lines.append(f"{name:<14}{right:>7}{missed:>8}{sum(v.weight for v in verdicts):>7}")
    return "\n".join([*lines, f"{share(found):.1%} of what can be right is right"])


def share(found: dict[str, list[Verdict]]) -> float:
    verdicts = [v for some in found.values() for v in some]
    right, missed = sum(v.right for v in verdicts), sum(len(v.missed) + bool(v.false) for v in verdicts)
    return right / (right + missed)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="How well the doctor reads the public files")
    parser.add_argument("--missed", action="store_true", help="name what was missed and what is false")
    parser.add_argument("--said", metavar="FILE", help="show everything that is said of one file")
    asked = parser.parse_args(argv)
    root = corpus()
    if root is None:
        print("PVECTL_CORPUS must name the folder with the public files", file=sys.stderr)
        return 1
    if asked.said:
        report = examine(root, *asked.said.split(","))
        for one in (*report.findings, *report.absorbed):
            print(f"{one.severity:<8}{one.rule}: {one.summary}")
        for crash in report.crashed:
            print(*crash.trace, sep="\n")
        return 0
    found = scores(root)
    for verdict in [v for some in found.values() for v in some] if asked.missed else ():
        for text in verdict.missed:
            print(f"missed  {verdict.file}: {text}")
        for text in verdict.false:
            print(f"false   {verdict.file}: {text}")
    print(summary(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
