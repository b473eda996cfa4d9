"""Facts of a PCI function in the few words that a box has room for, and all of them for its tooltip."""

from __future__ import annotations

from provision.evidence import Maybe, Unknown
from provision.host.text_layout import count, ids_text, size
from provision.pci.acs import acs_of, bit_names
from provision.pci.bars import memory_bar
from provision.pci.model import ACS_BITS, REQUIRED_ACS, Bar, ConfigSpace, Link, PciFunction
from provision.pci.model_names import class_name, vendor_name

UNKNOWN = "?"


def show(value: Maybe[object], form: str = "{}", absent: str = "") -> str:
    """Return a fact, ``?`` where it is not known, ``absent`` where it is not there."""
    if value is None:
        return absent
    return form.format(UNKNOWN if isinstance(value, Unknown) else value)


def explain(value: Maybe[object], form: str = "{}", absent: str = "none") -> str:
    """The same with the reason why it is not known."""
    if isinstance(value, Unknown):
        return f"{value}; to supply it: {value.supply}" if value.supply else str(value)
    return absent if value is None else form.format(value)


def link_text(link: Maybe[Link | None]) -> str:
    """``gen5 x16``, or what it runs at now and what it could; empty without a link."""
    if link is None or isinstance(link, Unknown):
        return show(link, "link {}")
    now = f"{show(link.current_gen, 'gen{}')} {show(link.current_width, 'x{}')}"
    most = f"{show(link.max_gen, 'gen{}')} {show(link.max_width, 'x{}')}"
    return now if now == most else f"{now} of {most}"


def is_narrow(link: Maybe[Link | None]) -> bool:
    """True where fewer lanes came up than the function has.  A lower generation is what an idle link does."""
    if link is None or isinstance(link, Unknown):
        return False
    now, most = link.current_width, link.max_width
    return isinstance(now, int) and isinstance(most, int) and now < most


def acs_text(fn: PciFunction) -> str:
    """``ACS SV+ RR+ CR- UF.``: on, off though offered, not offered."""
    state = acs_of(fn)
    if isinstance(state, Unknown):
        return "ACS ?"
    if state is None:
        return "no ACS"
    signs = []
    for bit, name in enumerate(ACS_BITS):
        mask = 1 << bit
        if REQUIRED_ACS & mask:
            signs.append(name + ("." if not state.capability & mask else "+" if state.control & mask else "-"))
    return "ACS " + " ".join(signs)


def isolates(fn: PciFunction) -> bool:
    """True where every ACS bit that the kernel asks for is on, as far as the port offers it."""
    state = acs_of(fn)
    if state is None or isinstance(state, Unknown):
        return False
    wanted = REQUIRED_ACS & state.capability
    return state.control & wanted == wanted


def bar1_text(fn: PciFunction) -> str:
    bar = memory_bar(fn)
    if isinstance(bar, Unknown):
        return "BAR1 ?"
    return f"BAR1 {size(bar.size)}" if bar else "BAR1 not assigned"


def facts(fn: PciFunction) -> list[tuple[str, str]]:
    """Every fact that no plan changes, by name."""
    found = [
        ("ids", ids_text(fn)),
        ("subsystem", explain(fn.subsystem_ids)),
        ("class", f"{class_name(fn.class_code)} ({fn.class_code:06x})"),
        ("maker", fn.description or vendor_name(fn.vendor)),
        ("NUMA node", explain(fn.numa_node, absent="not given by firmware")),
        ("IOMMU unit", explain(fn.iommu_unit)),
        ("link", link_text(fn.link) if not isinstance(fn.link, Unknown) else explain(fn.link)),
        ("slot", explain(fn.slot_name)),
        ("reset", explain(fn.reset_methods) if isinstance(fn.reset_methods, Unknown) else ", ".join(fn.reset_methods)),
        ("ACPI path", explain(fn.acpi_path)),
        ("BARs", explain(fn.bars) if isinstance(fn.bars, Unknown) else _bars(fn.bars)),
    ]
    space = fn.config
    found += [("configuration space", explain(space))] if isinstance(space, Unknown) else _space(space)
    return [(name, text) for name, text in found if text not in ("", "none")]


def _bars(bars: tuple[Bar, ...]) -> str:
    return ", ".join(f"{bar.index}: {size(bar.size)}" for bar in bars)


def _space(space: ConfigSpace) -> list[tuple[str, str]]:
    return [
        ("port type", explain(space.port_type, absent="conventional PCI")),
        ("ACS", explain(space.acs) if isinstance(space.acs, Unknown) else _acs(space)),
        ("serial number", explain(space.dsn)),
        ("function level reset", _yes(space.has_flr)),
        ("virtual functions", explain(space.sriov_total_vfs)),
        ("resizable BAR", _yes(space.rebar)),
        ("ASPM", _aspm(space)),
        ("ATS", _switch(space.ats)),
        ("PASID", _switch(space.pasid)),
        ("errors seen", _errors(space)),
        ("MSI-X", _vectors(space)),
    ]


def _yes(value: Maybe[bool]) -> str:
    return explain(value) if isinstance(value, Unknown) else ("yes" if value else "no")


def _acs(space: ConfigSpace) -> str:
    state = space.acs
    if state is None or isinstance(state, Unknown):
        return "none"
    offered, on = (" ".join(bit_names(mask)) or "nothing" for mask in (state.capability, state.control))
    return f"offers {offered}; on: {on}"


def _aspm(space: ConfigSpace) -> str:
    state = space.link_control
    if state is None or isinstance(state, Unknown):
        return explain(state)
    words = [name for name, is_on in (("L0s", state.aspm_l0s), ("L1", state.aspm_l1)) if is_on]
    return " ".join(words) or "off"


def _switch(state: Maybe[object]) -> str:
    if state is None or isinstance(state, Unknown):
        return explain(state)
    return "on" if getattr(state, "is_enabled", False) else "there, off"


def _errors(space: ConfigSpace) -> str:
    state = space.aer
    if state is None or isinstance(state, Unknown):
        return explain(state)
    return " ".join((*state.uncorrectable_names, *state.correctable_names)) or "no"


def _vectors(space: ConfigSpace) -> str:
    state = space.msix
    if state is None or isinstance(state, Unknown):
        return explain(state)
    return f"{count(state.vectors, 'vector')}, {'on' if state.is_enabled else 'off'}"
