"""Configuration space of one device, from the capabilities that lspci prints."""

from __future__ import annotations

import re

from provision.evidence import Maybe, Unknown
from provision.pci.model import AcsState, ConfigSpace, Link, PortType
from provision.pci.registers import DWORD_ACS_PORTS
from provision.readers.capability_registers import aer, ats, link_control, msix, pasid
from provision.readers.capability_text import ADD_DUMP, AS_ROOT, Capability, CapabilityText, Device, flags
from provision.readers.names import NO_ID

_SPEED = re.compile(r"Speed (?P<speed>[0-9.]+)GT/s")
_WIDTH = re.compile(r"Width x(?P<width>\d+)")
_SLOT = re.compile(r"Slot #(?P<number>\d+)")
_SERIAL = re.compile(r"(?P<digits>[0-9a-fA-F]{2}(?:-[0-9a-fA-F]{2}){7})")
_TOTAL = re.compile(r"Total VFs: (?P<total>\d+)")
_BUSES = re.compile(
    r"primary=[0-9a-fA-F]{2}, secondary=(?P<first>[0-9a-fA-F]{2}), subordinate=(?P<last>[0-9a-fA-F]{2})"
)
_WINDOW = re.compile(r"behind bridge: (?P<first>[0-9a-fA-F]+)-(?P<last>[0-9a-fA-F]+)(?P<rest>.*)$")

_GENERATIONS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}
_ACS_NAMES = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")
_FLR_TYPES = ("endpoint", "legacy-endpoint", "integrated-endpoint")
_PORTS = ("root-port", "downstream-port")
_LINKLESS = ("integrated-endpoint", "event-collector")


def capability_space(device: Device) -> ConfigSpace:
    """Return what the lines say of configuration space.  Never raises."""
    return _Reader(device).space()


class _Reader:
    def __init__(self, device: Device) -> None:
        self._device = device
        self._list = CapabilityText(device)
        self._text = self._list.text

    def space(self) -> ConfigSpace:
        express = self._list.express()
        return ConfigSpace(
            length=self._length(),
            header_type=self._header_type(),
            is_multifunction=Unknown(unknown="lspci does not print the multifunction bit", supply=ADD_DUMP),
            port_type=express,
            slot_number=self._slot_number(express),
            acs=self._acs(),
            dsn=self._serial(),
            has_flr=self._has_flr(express),
            link=self._link(express),
            link_control=link_control(self._list),
            ats=ats(self._list),
            pasid=pasid(self._list),
            aer=aer(self._list),
            msix=msix(self._list),
            sriov_total_vfs=self._total_vfs(),
            rebar=self._has_rebar(),
            clique=self._clique(),
            secondary_bus=self._bus("first"),
            subordinate_bus=self._bus("last"),
            prefetch_window=self._window("Prefetchable memory behind bridge"),
            memory_window=self._window("Memory behind bridge"),
        )

    def _header_type(self) -> Maybe[int]:
        if self._device.is_bridge is None:
            return Unknown(unknown="the text does not show the class of the device", supply=AS_ROOT)
        return int(self._device.is_bridge)

    def _length(self) -> int:
        if self._list.missing() is not None:
            return 64
        return 4096 if any(cap.is_extended for cap in self._list.caps) else 256

    def _slot_number(self, express: Maybe[PortType | None]) -> Maybe[int | None]:
        if isinstance(express, Unknown):
            return express
        if express not in _PORTS or "(Slot-)" in self._text:
            return None
        text = self._list.of_express("SltCap")
        if isinstance(text, Unknown):
            return text
        match = _SLOT.search(text)
        return int(match["number"]) if match else Unknown(unknown="SltCap shows no slot number")

    def _has_flr(self, express: Maybe[PortType | None]) -> Maybe[bool]:
        if isinstance(express, Unknown):
            return express
        if express is None:
            return self._has_advanced_flr()
        if express not in _FLR_TYPES:
            return False
        text = self._list.of_express("DevCap")
        if isinstance(text, Unknown):
            return text
        flag = flags(text).get("FLReset")
        return Unknown(unknown="DevCap does not show FLReset", supply=ADD_DUMP) if flag is None else flag

    def _has_advanced_flr(self) -> Maybe[bool]:
        cap = self._list.find("PCI Advanced Features", extended=False)
        if cap is None or isinstance(cap, Unknown):
            return False if cap is None else cap
        flag = flags(self._list.registers(cap, "AFCap") or "").get("FLR")
        return Unknown(unknown="the text does not show AFCap", supply=AS_ROOT) if flag is None else flag

    def _link(self, express: Maybe[PortType | None]) -> Maybe[Link | None]:
        if express is None or isinstance(express, Unknown):
            return express
        most = self._list.of_express("LnkCap")
        if isinstance(most, Unknown):
            return None if express in _LINKLESS and not isinstance(self._list.of_express("DevCap"), Unknown) else most
        now = self._list.of_express("LnkSta")
        return Link(
            current_gen=now if isinstance(now, Unknown) else _generation(now),
            current_width=now if isinstance(now, Unknown) else _width(now),
            max_gen=_generation(most),
            max_width=_width(most),
        )

    def _acs(self) -> Maybe[AcsState | None]:
        capability, control = self._acs_line("ACSCap"), self._acs_line("ACSCtl")
        cap = self._list.find("Access Control Services", extended=True)
        if capability is None or control is None:
            if cap is None or isinstance(cap, Unknown):
                return cap
            return Unknown(unknown="the text names the ACS capability and not what is on", supply=AS_ROOT)
        misread = self._acs_misread(control)
        if misread is not None:
            return misread
        return AcsState(offset=cap.offset if isinstance(cap, Capability) else 0, capability=capability, control=control)

    def _acs_line(self, name: str) -> int | None:
        match = re.search(rf"^\s*{name}:(?P<flags>.*)$", self._text, re.MULTILINE)
        shown = flags(match["flags"]) if match else {}
        if not all(name in shown for name in _ACS_NAMES):
            return None
        return sum(1 << bit for bit, name in enumerate(_ACS_NAMES) if shown[name])

    def _acs_misread(self, control: int) -> Unknown | None:
        """Some Intel root ports keep the control where lspci does not look; it then prints all off."""
        device = self._device
        if device.vendor != 0x8086 or control or device.device not in (NO_ID, *DWORD_ACS_PORTS):
            return None
        if self._list.express() != "root-port":
            return None
        return Unknown(
            unknown="lspci reads the ACS control of some Intel root ports at the wrong place, and this may be one",
            supply="add the output of: lspci -Dnnxxxx, run as root",
        )

    def _serial(self) -> Maybe[str | None]:
        cap = self._list.find("Device Serial Number", extended=True)
        if not isinstance(cap, Capability):
            return cap
        match = _SERIAL.search(cap.title)
        return match["digits"].replace("-", "").lower() if match else Unknown(unknown=f"serial number: {cap.title!r}")

    def _total_vfs(self) -> Maybe[int | None]:
        cap = self._list.find("Single Root I/O Virtualization", extended=True)
        if not isinstance(cap, Capability):
            return cap
        match = _TOTAL.search(" ".join(cap.lines))
        return int(match["total"]) if match else Unknown(unknown="the text does not show Total VFs", supply=AS_ROOT)

    def _has_rebar(self) -> Maybe[bool]:
        cap = self._list.find("Physical Resizable BAR", "Resizable BAR", extended=True)
        return cap if isinstance(cap, Unknown) else cap is not None

    def _clique(self) -> Maybe[int | None]:
        """lspci does not decode vendor capabilities: one of the right length may be it."""
        missing = self._list.missing()
        if missing is not None:
            return missing
        if any(cap.title.startswith("Vendor Specific Information: Len=08") for cap in self._list.caps):
            return Unknown(unknown="lspci does not show what a vendor's capability holds", supply=ADD_DUMP)
        return None

    def _bus(self, which: str) -> Maybe[int | None]:
        match = _BUSES.search(self._text)
        if match is not None:
            return int(match[which], 16)
        return Unknown(unknown="the text shows no bus numbers", supply=AS_ROOT) if self._device.is_bridge else None

    def _window(self, name: str) -> Maybe[tuple[int, int] | None]:
        """``None`` where the window is closed; lspci may leave a closed one out."""
        if not self._device.is_bridge:
            return None
        if _BUSES.search(self._text) is None:
            return Unknown(unknown="the text shows no windows", supply=AS_ROOT)
        line = re.search(rf"^\s*{name}.*$", self._text, re.MULTILINE)
        match = _WINDOW.search(line[0]) if line else None
        if match is None or "[disabled]" in match["rest"]:
            return None
        first, last = int(match["first"], 16), int(match["last"], 16)
        return None if last < first else (first, last)


def _generation(text: str) -> Maybe[int]:
    match = _SPEED.search(text)
    generation = _GENERATIONS.get(match["speed"].removesuffix(".0")) if match else None
    return generation or Unknown(unknown="lspci shows no link speed")


def _width(text: str) -> Maybe[int]:
    match = _WIDTH.search(text)
    lanes = int(match["width"]) if match else 0
    return lanes if 0 < lanes <= 32 else Unknown(unknown="the link shows no lanes")
