"""The paths report as text of at most 100 columns: GPUs, a matrix of paths, forecasts in groups, VMs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from provision.doctor.pair_words import Pairs, compress
from provision.doctor.paths_report import GpuRow, GuestReport, PathsReport
from provision.evidence import Maybe, Unknown
from provision.host.text_layout import Notes, count, size, wrap
from provision.pci import forecast as forecasts
from provision.pci import paths
from provision.pci.forecast import Forecast, PairForecast
from provision.pci.windows import GpuWindow
from provision.pve.fit import Fit
from provision.pve.layout import IO_LIMIT, apparent_path

T = TypeVar("T")
_WHERE = (("vm", "in one VM"), ("container", "in a container"), ("bare_metal", "on bare metal"))


def render(report: PathsReport, next_command: str = "") -> str:
    return _Text(report).text(next_command)


class _Text:
    def __init__(self, report: PathsReport) -> None:
        self._report = report
        self._notes = Notes()
        self._number = {row.bdf: index for index, row in enumerate(report.gpus)}

    def text(self, next_command: str) -> str:
        lines = [*self._head(), ""]
        if self._report.gpus:
            lines += ["BARs and windows on the host", *self._gpus(), ""]
        if len(self._report.gpus) > 1:
            lines += ["Paths between the GPUs", *self._matrix(), *self._legend(), "", *self._ways(), ""]
            lines += ["Peer-to-peer forecast (no proof: only a test with data is one)", *self._forecasts(), ""]
        lines += self._guests()
        if notes := self._notes.lines():
            lines += [*notes, ""]
        if next_command:
            lines += [f"Next: {next_command}"]
        return "\n".join(lines).rstrip("\n") + "\n"

    def _show(self, value: Maybe[object], form: str = "{}", absent: str = "") -> str:
        if isinstance(value, Unknown):
            return form.format(self._notes.mark(value))
        return absent if value is None else form.format(value)

    def _head(self) -> list[str]:
        report = self._report
        units = report.iommu_units
        on = units if isinstance(units, Unknown) else (count(len(units), "unit") if units else "off")
        parts = [
            count(len(report.gpus), "NVIDIA GPU"),
            self._show(report.cpu_vendor),
            self._show(report.address_bits, "{} address bits"),
            self._show(on, "IOMMU {}"),
            self._show(report.iommu_bits, "IOMMU address width {}"),
        ]
        return wrap(f"{self._show(report.hostname)}: ", parts, "  ")

    def _gpus(self) -> Iterator[str]:
        for index, row in enumerate(self._report.gpus):
            place = [row.root or "host bridge not known", self._show(row.numa_node, "NUMA {}", "no NUMA node")]
            unit = self._show(row.iommu_unit, "IOMMU unit {}", "not translated")
            yield f"  GPU{index:<3}{row.bdf} {row.name or 'model not listed'} {row.ids}"
            yield from wrap("        ", [*place, unit], "        ")
            yield from wrap("        ", self._window(row), "        ")

    def _window(self, row: GpuRow) -> list[str]:
        window = row.window
        if isinstance(window.bars, Unknown):
            return [f"BARs {self._notes.mark(window.bars)}"]
        bars = " ".join(f"{bar.index}:{size(bar.size)}{'' if bar.start else ' (no address)'}" for bar in window.bars)
        resizing = {"on": "resizable and enlarged", "off": "resizable, but small", "none": "not resizable"}
        state = window.resizing
        return [
            f"BARs {bars}",
            f"BAR1 {self._notes.mark(state) if isinstance(state, Unknown) else resizing[state]}",
            *self._room(window),
        ]

    def _room(self, window: GpuWindow) -> Iterator[str]:
        if window.bridge is None:
            yield "directly below the host bridge"
            return
        forwarded = window.window
        opened = self._show(_sized(forwarded), absent="nothing")
        bridge = self._show(window.bridge)
        verdict = {"yes": "enough", "no": "too small", "unknown": "not judged"}[window.room]
        yield f"{bridge} forwards {opened}, needed {self._show(_sized(window.needed))}: {verdict}"
        if window.needed_with_vfs != window.needed:
            yield f"{self._show(_sized(window.needed_with_vfs))} with all virtual functions"

    def _matrix(self) -> Iterator[str]:
        numbers = range(len(self._report.gpus))
        cells = {(self._number[path.source], self._number[path.target]): path.path for path in self._report.paths}
        yield "         " + "".join(f"{index:<5}" for index in numbers).rstrip()
        for a in numbers:
            row = [self._show(cells.get((a, b), "X")) if a != b else "X" for b in numbers]
            yield f"  GPU{a:<4}" + "".join(f"{_short(cell):<5}" for cell in row).rstrip()

    def _legend(self) -> list[str]:
        seen = {path.path for path in self._report.paths if isinstance(path.path, str)}
        words = [f"{name} {text}" for name, text in paths.MEANING.items() if name in seen]
        return wrap("  ", [*words], "  ")

    def _ways(self) -> Iterator[str]:
        """What lies on the way, pairs with the same facts together."""
        for facts, pairs in self._grouped((path.source, path.target, self._way(path)) for path in self._report.paths):
            yield from wrap("  ", [f"{compress(pairs)}: {facts[0]}", *facts[1:]], "    ")

    def _way(self, path: paths.GpuPath) -> tuple[str, ...]:
        parts = []
        if path.common is not None:
            parts.append(self._show(path.common, "meet below {}"))
            parts += self._redirects("requests", path.requests)
            parts += self._redirects("completions", path.completions)
        units = path.iommu_units
        translated = units if isinstance(units, Unknown) else count(len(units), "IOMMU unit")
        parts.append(self._show(translated, "{}" if isinstance(translated, str) else "IOMMU units {}"))
        same = path.same_socket
        socket = {True: "one socket", False: "two sockets"}
        parts.append(self._show(same, "one socket or two: {}") if isinstance(same, Unknown) else socket[same])
        return tuple(parts)

    def _redirects(self, what: str, ports: Maybe[tuple[paths.Redirect, ...]]) -> list[str]:
        if isinstance(ports, Unknown):
            return [f"{what} {self._notes.mark(ports)}"]
        if not ports:
            return [f"{what} go across"]
        bits = "|".join(dict.fromkeys(bit for port in ports for bit in port.bits))
        return [f"{what} are sent up (ACS {bits})"]

    def _forecasts(self) -> Iterator[str]:
        for key, where in _WHERE:
            yield f"  {where}"
            rows = ((pair.source, pair.target, _forecast(pair, key)) for pair in self._report.forecasts)
            for told, pairs in self._grouped(rows):
                yield from wrap("    ", [f"{compress(pairs)}: {forecasts.MEANING[told.verdict]}"], "      ")
                for reason in told.reasons:
                    yield from wrap("      - ", [reason], "        ")

    def _grouped(self, rows: Iterable[tuple[str, str, T]]) -> Iterator[tuple[T, Pairs]]:
        groups: dict[str, tuple[T, list[tuple[int, int]]]] = {}
        for source, target, facts in rows:
            groups.setdefault(repr(facts), (facts, []))[1].append((self._number[source], self._number[target]))
        for facts, pairs in groups.values():
            yield facts, tuple(pairs)

    def _guests(self) -> Iterator[str]:
        guests = self._report.guests
        if isinstance(guests, Unknown):
            yield f"VMs: {self._notes.mark(guests)}"
            yield ""
            return
        for guest in guests:
            yield from self._guest(guest)
            yield ""

    def _guest(self, guest: GuestReport) -> Iterator[str]:
        name = f" {guest.name}" if isinstance(guest.name, str) else ""
        yield f"VM {guest.vmid}{name}: {count(len(guest.slots), 'slot')} with GPUs, {guest.machine}"
        classes = {apparent_path(a, b) for a in guest.slots for b in guest.slots if a.index < b.index}
        if classes:
            shown = " and ".join(sorted(classes))
            yield from wrap("  ", [f"the guest will show {shown} whatever the host's paths are"], "    ")
        if len(guest.order) > 1:
            order = " ".join(str(index) for index in guest.order)
            yield from wrap("  ", [f"order in the guest, by number of hostpci: {order}"], "    ")
        if guest.fit is None:
            yield "  address space: not judged, the firmware is not OVMF"
        else:
            yield from self._fit(guest.fit)

    def _fit(self, fit: Fit) -> Iterator[str]:
        window = fit.window
        shown = self._notes.mark(window) if isinstance(window, Unknown) else f"{size(window.size)} ({window.kind})"
        verdict = {"yes": "fits", "no": "does not fit", "unknown": "not judged"}[fit.verdict]
        needed = self._show(_sized(fit.needed))
        yield from wrap("  address space: ", [f"OVMF's window {shown}", f"needed {needed}: {verdict}"], "    ")
        if not isinstance(window, Unknown) and not window.is_reachable:
            yield "    the window ends beyond the CPU's address bits: the firmware may not start"
        for number, change in enumerate(fit.changes):
            yield from wrap(f"    {'or' if number else 'change'} {change.key}: ", [change.value], "      ")
        if fit.verdict == "no" and not fit.changes:
            yield "    no option makes them fit: give the VM fewer GPUs"
        if isinstance(fit.is_peer_reachable, Unknown):
            yield f"    whether the IOMMU reaches the window: {self._notes.mark(fit.is_peer_reachable)}"
        elif not fit.is_peer_reachable:
            more = f": guest-phys-bits={fit.guest_bits}" if fit.guest_bits else ", and a smaller one is too small"
            yield from wrap("    ", [f"the IOMMU does not reach the window, no peer traffic{more}"], "      ")
        if not fit.has_io_for_all:
            yield from wrap(
                "    ", [f"more than {IO_LIMIT} GPUs have an I/O BAR: OVMF leaves the rest without BARs"], "      "
            )


def _forecast(pair: PairForecast, key: str) -> Forecast:
    told: Mapping[str, Forecast] = {"vm": pair.vm, "container": pair.container, "bare_metal": pair.bare_metal}
    return told[key]


def _short(cell: str) -> str:
    return cell.replace(" ", "")


def _sized(value: Maybe[int | None]) -> Maybe[str | None]:
    """Return bytes in words; what is no whole number of a large unit in GiB."""
    if value is None or isinstance(value, Unknown):
        return value
    is_round = value < 1 << 30 or value % (1 << 40) == 0 or (value < 1 << 40 and value % (1 << 30) == 0)
    return size(value) if is_round else f"{value / (1 << 30):.2f} GiB"
