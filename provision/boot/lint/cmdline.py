"""The linter of the kernel command line."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from provision.boot.cmdline import Cmdline, Token
from provision.boot.lint.contradictions import contradictions
from provision.boot.lint.parameters import KNOWN_VALUES, MODULE_OPTIONS, ROWS, Row
from provision.boot.lint.remark import KERNEL, PASSTHROUGH, Doubt, Lint, LintFacts, Remark
from provision.boot.lint.words import blacklisted, given_ids, meant
from provision.evidence import Maybe, Unknown, known
from provision.pci.kernel_options import is_at_least

FRAMEBUFFERS = ("efifb", "vesafb", "simplefb")
MAY_REPEAT = frozenset({"hugepagesz", "hugepages", "console", "earlycon", "cgroup_disable"})
_BLACKLISTS = ("modprobe.blacklist", "module_blacklist")


def lint_cmdline(line: Cmdline, facts: LintFacts | None = None) -> Lint:
    """Return what is to be said of each parameter, in order, then of those that are missing."""
    facts = facts or LintFacts()
    remarks: list[Remark] = []
    doubts: list[Doubt] = []
    for token in dict.fromkeys(t.raw for t in line.kernel):
        for said in _token(Token(token), facts):
            (remarks if isinstance(said, Remark) else doubts).append(said)  # type: ignore[arg-type]
    remarks += _duplicates(line)
    remarks += contradictions(line)
    remarks += _missing(line, facts)
    return Lint(tuple(remarks), tuple(doubts))


def _token(token: Token, facts: LintFacts) -> Iterator[Remark | Doubt]:
    yield from _rows(token, facts)
    yield from _unknown_values(token)
    yield from _video(token, facts)
    yield from _misspelt(token)
    if token.key == "vfio_pci.ids" and token.value:
        yield from given_ids(token.value, facts)
    if token.key in _BLACKLISTS:
        yield from blacklisted([name for name in (token.value or "").split(",") if name])


def matching(token: Token, cpu_vendor: Maybe[str]) -> Iterator[tuple[Row, Maybe[bool]]]:
    """Yield the rows that fit a token; Unknown where only the processor's vendor could tell."""
    for row in ROWS:
        if _fits(row, token):
            if row.only_on is None:
                yield row, True
            elif isinstance(cpu_vendor, Unknown):
                yield row, cpu_vendor
            elif row.only_on == cpu_vendor:
                yield row, True


def _fits(row: Row, token: Token) -> bool:
    name, equals, value = row.pattern.partition("=")
    if not fnmatchcase(token.key.lower(), name):
        return False
    if not equals:
        return token.value is None
    if token.value is None:
        return False
    parts = token.value.split(",")
    return any(fnmatchcase(part.replace("-", "_") if token.key == "pci" else part, value) for part in parts)


def _rows(token: Token, facts: LintFacts) -> Iterator[Remark | Doubt]:
    found = list(matching(token, facts.cpu_vendor))
    for row, verdict in found:
        if isinstance(verdict, Unknown):
            if len(found) == 1 and not _is_text_alone(facts):
                yield Doubt(token.raw, verdict)
        elif not _is_wanted_off(row, facts):
            yield Remark(row.kind, row.severity, token.raw, row.text, row.advice, row.source)


def _is_text_alone(facts: LintFacts) -> bool:
    """A pasted line: the processor's vendor is no open question, since everybody knows which it is."""
    return isinstance(facts.functions, Unknown) and isinstance(facts.release, Unknown)


def _is_wanted_off(row: Row, facts: LintFacts) -> bool:
    """A host that gives no device to a guest may well run without IOMMU."""
    return row.pattern in ("iommu=off", "amd_iommu=off", "intel_iommu=off") and facts.gives_devices is False


def _unknown_values(token: Token) -> Iterator[Remark]:
    values = KNOWN_VALUES.get(token.key)
    if values is None or token.value is None:
        return
    said = {row.pattern for row in ROWS if row.kind == "no-op"}
    for part in token.value.split(","):
        is_known = part in values or f"{token.key}={part}" in said or part.startswith(("id:", "memaper="))
        if part and not is_known:
            text = f"{part} is no value of {token.key}=; the kernel ignores it"
            yield Remark("misspelt", "warning", token.raw, text, f"one of {', '.join(sorted(values))}", KERNEL)


def _video(token: Token, facts: LintFacts) -> Iterator[Remark]:
    """``video=`` has one driver and its options: what follows a comma is no second driver."""
    if token.key != "video" or not token.value:
        return
    parts = token.value.split(",")
    drivers = [part.partition(":")[0] for part in parts]
    if not all(part.endswith(":off") for part in parts) or any(driver not in FRAMEBUFFERS for driver in drivers):
        return
    if len(drivers) > 1 and "-pve" not in known(facts.release, ""):
        severity = "warning" if "efifb" in drivers[1:] else "info"
        text = (
            f"the comma form of video= reaches {drivers[0]} only: {', '.join(drivers[1:])} is read as its option and "
            "not switched off"
        )
        advice = "one video= for each driver: " + " ".join(f"video={driver}:off" for driver in drivers)
        yield Remark("misspelt", severity, token.raw, text, advice, "Linux, drivers/video/fbdev/core/fb_cmdline.c")  # type: ignore[arg-type]
    else:
        text = "Proxmox kernels draw the firmware's screen with simpledrm, which does not read it"
        yield Remark("no-op", "info", token.raw, text, "leave it; initcall_blacklist=sysfb_init is what works", KERNEL)


def _misspelt(token: Token) -> Iterator[Remark]:
    near = meant(token.key)
    if near is not None:
        text = f"no parameter of the kernel; {near} is probably meant"
        yield Remark("misspelt", "warning", token.raw, text, f"write {near}", KERNEL)
        return
    module, _, option = token.key.partition(".")
    if option and module in MODULE_OPTIONS and option not in MODULE_OPTIONS[module]:
        text = f"{module} has no option {option}; it logs an unknown parameter and ignores it"
        yield Remark("misspelt", "warning", token.raw, text, "leave it out", PASSTHROUGH)


def _duplicates(line: Cmdline) -> Iterator[Remark]:
    seen: dict[tuple[str, str | None], int] = {}
    for token in line.kernel:
        if token.key not in MAY_REPEAT:
            seen[token.key, token.value] = seen.get((token.key, token.value), 0) + 1
    for (key, value), count in seen.items():
        if count > 1:
            word = key if value is None else f"{key}={value}"
            text = "it stands there " + ("twice" if count == 2 else f"{count} times") + "; once is enough"
            yield Remark("duplicate", "info", word, text, "leave all but one out", KERNEL)


def _missing(line: Cmdline, facts: LintFacts) -> Iterator[Remark]:
    if facts.cpu_vendor != "GenuineIntel" or facts.gives_devices is not True or isinstance(facts.release, Unknown):
        return
    values = ",".join(value or "" for value in line.values("intel_iommu")).split(",")
    if not is_at_least(facts.release, 6, 8) and not {"on", "off"} & set(values):
        text = "kernels before 6.8 leave Intel's IOMMU off without it"
        advice = "pvectl plan adds it where a GPU goes to a guest"
        yield Remark("missing", "error", "intel_iommu=on", text, advice, PASSTHROUGH)


def noop_of(token: Token, cpu_vendor: Maybe[str]) -> Remark | None:
    """Return why a token surely does nothing on a Proxmox host, or ``None``."""
    facts = LintFacts(cpu_vendor=cpu_vendor, release="6.14.0-pve", functions=())
    parts = (token.value or "").split(",")
    for said in (*_rows(token, facts), *_video(token, facts)):
        if isinstance(said, Remark) and said.kind == "no-op" and (len(parts) == 1 or _is_whole(token, said)):
            return said
    return None


def _is_whole(token: Token, said: Remark) -> bool:
    """A list of values is idle only where every part is."""
    if token.key == "video" or said.text.startswith("this host has"):
        return True
    rows = [row for row in ROWS if row.kind == "no-op"]
    return all(
        any(_fits(row, Token(f"{token.key}={part}")) and row.only_on is None for row in rows)
        for part in (token.value or "").split(",")
    )
