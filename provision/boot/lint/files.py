"""The linter of the files that hold the command line: what it says, with the place of each word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from provision.boot.cmdline import Cmdline
from provision.boot.grub import GrubDefaults, PlacedToken
from provision.boot.lint.cmdline import lint_cmdline
from provision.boot.lint.remark import BOOTING, Lint, LintFacts, Remark
from provision.boot.systemd_boot import CMDLINE_FILE, KernelCmdlineFile
from provision.evidence import Unknown


def lint_grub(defaults: GrubDefaults, facts: LintFacts | None = None) -> Lint:
    """Return what is to be said of GRUB's defaults: of the words, then of the files themselves."""
    places = defaults.visible()
    line = Cmdline.parse(" ".join(place.token.raw for place in places))
    found = lint_cmdline(line, facts)
    remarks = [_placed(remark, places) for remark in found.remarks]
    return Lint((*remarks, *_shell(defaults), *_overwritten(defaults), *_zfs(places)), found.doubts)


def lint_kernel_cmdline(text: str, facts: LintFacts | None = None) -> Lint:
    """Return what is to be said of ``/etc/kernel/cmdline``."""
    file = KernelCmdlineFile.parse(text)
    found = lint_cmdline(file.cmdline, facts)
    remarks = [replace(remark, path=CMDLINE_FILE, line=1) for remark in found.remarks]
    if not file.has_root:
        text = "without root= in the first line proxmox-boot-tool refresh refuses to write any boot entry"
        remarks.append(Remark("missing", "error", "root=", text, "put root= back", BOOTING, CMDLINE_FILE, 1))
    for number, word in file.ignored:
        said = "proxmox-boot-tool reads the first line only"
        advice = "move it into the first line"
        remarks.append(Remark("note", "warning", word, said, advice, BOOTING, CMDLINE_FILE, number))
    return Lint(tuple(remarks), found.doubts)


def _placed(remark: Remark, places: tuple[PlacedToken, ...]) -> Remark:
    words = remark.subject.split(" ")
    mine = [p for p in places if p.token.raw in words or remark.subject in p.token.raw]
    if not mine:
        return remark
    text = remark.text
    variables = list(dict.fromkeys(place.variable for place in mine))
    if remark.kind == "duplicate" and len(variables) > 1:
        text = f"it stands there twice, in {' and in '.join(variables)}; update-grub joins both"
    return replace(remark, path=mine[0].path, line=mine[0].line, text=text)


def _shell(defaults: GrubDefaults) -> Iterator[Remark]:
    for path, statement in defaults.opaque():
        excerpt = statement.text.splitlines()[0][:70]
        text = f"a shell must read this ({excerpt}): files in grub.d or other commands may change the result"
        yield Remark("note", "info", path, text, "write plain assignments", BOOTING, path, statement.line)


def _overwritten(defaults: GrubDefaults) -> Iterator[Remark]:
    lost = defaults.lost()
    for place in () if isinstance(lost, Unknown) else lost:
        text = f"it stands in {place.variable} and a later assignment overwrites it"
        advice = f'extend the variable there: {place.variable}="${place.variable} ..."'
        yield Remark("note", "warning", place.token.raw, text, advice, BOOTING, place.path, place.line)


def _zfs(places: tuple[PlacedToken, ...]) -> Iterator[Remark]:
    for place in places:
        if place.token.key == "root" and (place.token.value or "").startswith("ZFS="):
            text = (
                "root on ZFS: this file counts only if GRUB boots the host; systemd-boot reads /etc/kernel/cmdline "
                "(proxmox-boot-tool status tells)"
            )
            advice = "run proxmox-boot-tool status as root"
            yield Remark("note", "info", place.token.raw, text, advice, BOOTING, place.path, place.line)
