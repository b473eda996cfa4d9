"""The linter of ``/etc/modprobe.d`` and ``/etc/modules``, for what passthrough needs of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from provision.boot.lint.parameters import MODULE_OPTIONS
from provision.boot.lint.remark import KERNEL, PASSTHROUGH, Doubt, Lint, LintFacts, Remark
from provision.boot.lint.words import blacklisted, given_ids, meant
from provision.boot.modprobe import ModprobeFile, ModprobeLine, modules_to_load, same_module

_KMOD = "modprobe.d(5)"


def lint_modprobe(files: Mapping[str, ModprobeFile], facts: LintFacts | None = None) -> Lint:
    """Return what is to be said of these files, by path, in the order in which modprobe reads them."""
    facts = facts or LintFacts()
    remarks: list[Remark] = []
    doubts: list[Doubt] = []
    for path in sorted(files, key=lambda p: p.rsplit("/", 1)[-1]):
        for line in files[path].lines:
            for said in _line(line, facts):
                if isinstance(said, Remark):
                    remarks.append(replace(said, path=path, line=line.line))
                else:
                    doubts.append(said)
    remarks += _several_ids(files)
    remarks += _aliases(files)
    return Lint(tuple(remarks), tuple(doubts))


def lint_modules(text: str, path: str = "/etc/modules") -> Lint:
    """Return what is to be said of a list of modules to load."""
    remarks = []
    for name in modules_to_load(text):
        if same_module(name, "vfio_virqfd"):
            said = "it is no module any more: from kernel 6.2 on it is part of vfio"
            remarks.append(Remark("obsolete", "info", name, said, "leave it out", PASSTHROUGH, path))
    return Lint(tuple(remarks))


def _line(line: ModprobeLine, facts: LintFacts) -> Iterator[Remark | Doubt]:
    if line.command == "blacklist":
        yield from blacklisted(list(line.words[:1]))
    elif line.command == "options" and line.words:
        yield from _options(line, facts)
    elif line.command == "other":
        text = "modprobe knows no such command and ignores the line"
        yield Remark("misspelt", "warning", line.words[0], text, "correct or remove the line", _KMOD)


def _options(line: ModprobeLine, facts: LintFacts) -> Iterator[Remark | Doubt]:
    module = line.words[0].replace("-", "_")
    for word in line.words[1:]:
        name, _, value = word.partition("=")
        if module in MODULE_OPTIONS and name not in MODULE_OPTIONS[module]:
            near = meant(f"{module}.{name}")
            text = f"{module} has no option {name}: the kernel logs an unknown parameter and ignores it"
            right = near.partition(".")[2] if near else ""
            advice = f"write {right}={value}" if right else "leave it out"
            said = f"{text}; {right} is meant" if right else text
            yield Remark("misspelt", "warning", name, said, advice, KERNEL)
        elif (module, name) == ("vfio_pci", "ids"):
            yield from given_ids(value, facts)
        elif (module, name) == ("vfio_iommu_type1", "allow_unsafe_interrupts") and value.lower() in ("1", "y", "on"):
            text = "allow_unsafe_interrupts lets a guest forge interrupts of the host"
            advice = "leave it out and turn on interrupt remapping in the firmware"
            yield Remark("risky", "error", word, text, advice, PASSTHROUGH)


def _several_ids(files: Mapping[str, ModprobeFile]) -> Iterator[Remark]:
    """modprobe joins all option lines of a module, and of several ``ids=`` the kernel keeps the last."""
    found = [value for path in sorted(files) for name, value in files[path].options("vfio-pci") if name == "ids"]
    if len(set(found)) > 1:
        text = f"ids= is given {len(found)} times, and the kernel keeps only the last ({found[-1]})"
        yield Remark("contradictory", "warning", "vfio-pci ids", text, "write one line with all ids", KERNEL)


def _aliases(files: Mapping[str, ModprobeFile]) -> Iterator[Remark]:
    """An alias loads vfio-pci for a device; only an id makes vfio-pci take it."""
    taken = {part.lower()[:9] for file in files.values() for value in _ids(file) for part in value.split(",")}
    for path in sorted(files):
        for line in files[path].of("alias"):
            ids = _alias_ids(line)
            if ids is not None and ids not in taken:
                text = "the alias loads vfio-pci for the device and does not bind it: it needs ids= or driver_override"
                advice = "bind the device by its address: policies.binding: per-device"
                yield Remark("no-op", "warning", ids, text, advice, _KMOD, path, line.line)


def _ids(file: ModprobeFile) -> Iterable[str]:
    return (value for name, value in file.options("vfio-pci") if name == "ids" and value)


def _alias_ids(line: ModprobeLine) -> str | None:
    """Return ``vvvv:dddd`` of ``alias pci:v0000VVVVd0000DDDD... vfio-pci``."""
    if len(line.words) < 2 or not same_module(line.words[1], "vfio-pci"):
        return None
    head, _, rest = line.words[0].partition("pci:v")
    vendor, has_device, tail = rest.partition("d")
    if head or not has_device or len(vendor) != 8 or len(tail) < 8:
        return None
    return f"{vendor[4:]}:{tail[4:8]}".lower()
