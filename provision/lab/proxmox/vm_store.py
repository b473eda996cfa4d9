"""``<vmid>.conf`` as Proxmox reads and writes it: sorted on every write, bad lines lost."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from urllib.parse import unquote

from provision.lab.proxmox import vm_options
from provision.lab.proxmox.faults import die
from provision.lab.rootfs import Rootfs

FOLDER = "/etc/pve/nodes/{node}/qemu-server"


def path_of(node: str, vmid: int) -> str:
    return f"{FOLDER.format(node=node)}/{vmid}.conf"


def vmids(root: Rootfs, node: str) -> list[int]:
    names = root.names(FOLDER.format(node=node))
    return sorted(int(name.removesuffix(".conf")) for name in names if re.fullmatch(r"\d+\.conf", name))


@dataclass
class VmStore:
    """One VM's configuration: live values, pending ones, and the other sections line by line."""

    node: str
    vmid: int
    live: dict[str, str] = field(default_factory=dict)
    pending: dict[str, str] = field(default_factory=dict)
    pending_delete: list[str] = field(default_factory=list)
    rest: dict[str, dict[str, str]] = field(default_factory=dict)
    digest: str = ""
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def load(cls, root: Rootfs, node: str, vmid: int) -> VmStore:
        """Read a VM's file.  Raises CallFailed where there is none."""
        text = root.read(path_of(node, vmid))
        if text is None:
            die(f"Configuration file 'nodes/{node}/qemu-server/{vmid}.conf' does not exist")
        digest = hashlib.sha1(text.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()
        store = cls(node, vmid, digest=digest)
        store._read(text)
        return store

    def _read(self, text: str) -> None:
        section = self.live
        for line in text.split("\n"):
            header = re.fullmatch(r"\[(\S+)\]\s*", line)
            if header is not None:
                section = self._section(header[1])
            elif line.startswith("#"):
                described = section.get("description", "")
                section["description"] = described + unquote(line[1:]) + "\n"
            elif line.strip():
                self._read_line(section, line)
        for values in (self.live, self.pending, *self.rest.values()):
            if "description" in values:
                values["description"] = values["description"].removesuffix("\n")

    def _section(self, name: str) -> dict[str, str]:
        if name == "PENDING":
            return self.pending
        return self.rest.setdefault(name, {})

    def _read_line(self, section: dict[str, str], line: str) -> None:
        match = re.fullmatch(r"([a-z][a-z_\-]*\d*):\s*(.+?)\s*", line)
        if match is None:
            self.warnings.append(f"vm {self.vmid} - unable to parse config: {line}")
            return
        key, value = match[1], match[2]
        if section is self.pending and key == "delete":
            self.pending_delete = value.split(",")
            return
        if section is self.live or section is self.pending:
            problem = _reading_problem(key, value)
            if problem is not None:
                self.warnings.append(f"vm {self.vmid} - unable to parse value of '{key}' - {problem}".rstrip("\n"))
                return
        section[key] = value

    @property
    def merged(self) -> dict[str, str]:
        """Live values with the pending changes applied, as GET config shows them."""
        values = {key: value for key, value in self.live.items() if key not in self.pending_delete}
        return values | self.pending

    def apply_pending(self) -> None:
        self.live, self.pending, self.pending_delete = self.merged, {}, []

    def save(self, root: Rootfs) -> None:
        text = _section_text(self.live)
        if self.pending or self.pending_delete:
            deleted = f"delete: {','.join(self.pending_delete)}\n" if self.pending_delete else ""
            text += "\n[PENDING]\n" + deleted + _section_text(self.pending)
        for name, values in self.rest.items():
            text += f"\n[{name}]\n" + _section_text(values)
        root.write(path_of(self.node, self.vmid), text, mode=0o640)
        self.digest = hashlib.sha1(text.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()


def _reading_problem(key: str, value: str) -> str | None:
    base = vm_options.base_of(key)
    if base is None:
        return f"unknown setting '{key}'"
    if base == "hookscript":
        return None
    problem = vm_options.check(key, value)
    if problem is None:
        return None
    text = problem.removeprefix("invalid format - ")
    return text.replace(f"{key}.", "")


def _section_text(values: dict[str, str]) -> str:
    described = values.get("description")
    text = "" if described is None else "".join(f"#{_encode(line)}\n" for line in described.split("\n"))
    return text + "".join(f"{key}: {values[key]}\n" for key in sorted(values) if key != "description")


def _encode(line: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in "%:" or ord(char) < 0x20 else char for char in line)
