"""Boot files of other people: each is given back byte for byte and read as it is meant."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from provision.boot.cmdline import Cmdline
from provision.boot.efi_entries import parse_efibootmgr
from provision.boot.esp_status import parse_status
from provision.boot.grub import DEFAULT_FILE, GrubDefaults
from provision.boot.lint.files import lint_grub, lint_kernel_cmdline
from provision.boot.lint.modprobe import lint_modprobe
from provision.boot.lint.remark import Lint
from provision.boot.loader import LoaderFacts, decide_loader
from provision.boot.modprobe import ModprobeFile
from provision.boot.systemd_boot import KernelCmdlineFile

pytestmark = pytest.mark.corpus


@dataclass(frozen=True)
class Said:
    severity: str
    text: str


def corpus() -> list[tuple[dict[str, Any], str]]:
    root = os.environ.get("PVECTL_CORPUS")
    if not root:
        pytest.skip("PVECTL_CORPUS names no folder")
    rows = [json.loads(line) for line in Path(root, "expected.jsonl").read_text("utf-8").splitlines()]
    mine = [row for row in rows if row["kind"] == "bootcfg"]
    return [(row, Path(root, row["file"]).read_text("utf-8", errors="replace")) for row in mine]


def grub(text: str) -> Iterator[Said]:
    defaults = GrubDefaults({DEFAULT_FILE: text})
    yield from remarks(lint_grub(defaults))
    yield from (Said("fact", p.token.raw) for p in defaults.visible())


def kernel_cmdline(text: str) -> Iterator[Said]:
    yield from remarks(lint_kernel_cmdline(text))
    yield from (Said("fact", t.raw) for t in KernelCmdlineFile.parse(text).cmdline.tokens)


def modprobe(text: str) -> Iterator[Said]:
    file = ModprobeFile.parse(text)
    yield from remarks(lint_modprobe({"/etc/modprobe.d/x.conf": file}))
    yield Said("fact", "blacklist " + " ".join(file.blacklisted()))
    yield from (Said("fact", " ".join((line.command, *line.words))) for line in file.lines if line.words)


def status(text: str) -> Iterator[Said]:
    loader = decide_loader(LoaderFacts(tool_status=text))
    known = parse_status(text)
    yield Said(
        "fact", f"boot loader {loader.kind} on {' '.join(e.uuid for e in known.esps)}: edit {loader.cmdline_file}"
    )
    yield from (Said("warning", note) for note in loader.notes)


def efibootmgr(text: str) -> Iterator[Said]:
    efi = parse_efibootmgr(text)
    loader = decide_loader(LoaderFacts(efibootmgr=text, boot_uuids=None if is_grub(text) else LoaderFacts().boot_uuids))
    yield Said("fact", f"boot loader {loader.kind}: edit {loader.cmdline_file}; {'; '.join(loader.evidence)}")
    yield from (Said("fact", f"Boot{e.number}: boot loader {e.loader or 'unknown'}") for e in efi.entries)
    yield from (Said("warning", note) for note in loader.notes)


def is_grub(text: str) -> bool:
    """Without any ESP list the running entry alone tells GRUB; update-grub or refresh stays open."""
    running = parse_efibootmgr(text).running
    return running is not None and running.loader == "grub"


def remarks(lint: Lint) -> Iterator[Said]:
    yield from (Said(r.severity, f"{r.subject}: {r.text} {r.advice}") for r in lint.remarks)


READERS: tuple[tuple[str, Callable[[str], Iterator[Said]]], ...] = (
    ("-grub-", grub),
    ("-kernel-cmdline", kernel_cmdline),
    ("-modprobe-", modprobe),
    ("-pbt-status", status),
    ("-efibootmgr", efibootmgr),
)


def reader_of(name: str) -> Callable[[str], Iterator[Said]]:
    """efibootmgr comes first: one of its files is about GRUB."""
    return next(reader for part, reader in reversed(READERS) if part in name)


def fits(said: Said, wanted: dict[str, Any]) -> bool:
    words = [*wanted.get("words", ()), *wanted.get("subjects", ())]
    return all(word.lower() in said.text.lower() for word in words)


def is_claimed(said: Said, unwanted: dict[str, Any]) -> bool:
    """Whether a reading says what it must not, as grave or graver.  A fact without words is one of a boot loader."""
    if unwanted["severity"] == "fact" or said.severity == "fact":
        names_one = "boot loader grub" in said.text or "boot loader systemd-boot" in said.text
        is_other = bool(unwanted.get("words") or unwanted.get("subjects")) or names_one
        return said.severity == unwanted["severity"] and is_other and fits(said, unwanted)
    return RANK[said.severity] <= RANK[unwanted["severity"]] and fits(said, unwanted)


RANK = {"error": 0, "warning": 1, "info": 2}


@pytest.mark.counted
def test_every_file_gives_back_what_was_read() -> None:
    files = corpus()
    for row, text in files:
        for codec in (Cmdline, ModprobeFile, KernelCmdlineFile):
            assert codec.parse(text).render() == text, row["file"]  # type: ignore[attr-defined]
    print(f"{len(files)} files given back byte for byte")


@pytest.mark.counted
def test_every_file_is_read_as_it_is_meant() -> None:
    found = forbidden = 0
    problems: list[str] = []
    files = corpus()
    for row, text in files:
        said = list(reader_of(row["file"])(text))
        for wanted in row["must"]:
            hits = [s for s in said if s.severity == wanted["severity"] and fits(s, wanted)]
            hits = hits or gathered(said, wanted)
            found += bool(hits)
            if not hits:
                problems.append(f"{row['file']}: lacks {wanted['severity']} {wanted['about']}")
        for unwanted in row["must_not"]:
            forbidden += 1
            hits = [s for s in said if is_claimed(s, unwanted)]
            problems += [f"{row['file']}: claims {unwanted['about']}: {s}" for s in hits]
    print(f"{len(files)} files: {found} readings found, {forbidden} wrong ones not claimed")
    assert not problems, "\n".join(problems)
    assert found
    assert forbidden


def gathered(said: list[Said], wanted: dict[str, Any]) -> list[Said]:
    """One reading may name several subjects in several remarks."""
    same = [s for s in said if s.severity == wanted["severity"]]
    if not same or wanted["severity"] == "error":
        return []
    whole = Said(wanted["severity"], " ".join(s.text for s in same))
    return [whole] if fits(whole, wanted) else []
