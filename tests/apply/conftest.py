"""A host in memory: files, Proxmox objects, boots.  Any call to it can be made to fail."""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import io
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import pytest

from provision.apply import deadman_program
from provision.apply.host_files import BOOT_ID
from provision.apply.onboard import run as onboard_run
from provision.apply.outcome import ApplyOptions, RunOutcome, Seams
from provision.apply.run import apply_plan, resume, rollback, rollback_all, rollback_to
from provision.boot.grub import GrubDefaults
from provision.capture.model import Item
from provision.errors import ConnectionCut, ConnectionRefused, PvectlError, StaleDigest, StalePlan
from provision.host.model import (
    BootLoader,
    Console,
    FileState,
    HostModel,
    HostPci,
    Iommu,
    IommuGroup,
    Kernel,
    MappingEntry,
    PciMapping,
    Proxmox,
    Vm,
)
from provision.pci.model import ConfigSpace, PciFunction
from provision.plan.digests import ABSENT, mapping_digest, text_digest, vm_digest
from provision.plan.model import (
    ActionRun,
    Basis,
    BootOnce,
    Change,
    Expectation,
    FileRemove,
    FileWrite,
    GpuRow,
    MappingDelete,
    MappingPut,
    Plan,
    VmSet,
)
from provision.pve.property_string import parse
from provision.pve.session import CheckMessage, MappingRow, TaskResult, VmConfig
from provision.remote.session import FileMeta, Read, RunResult, Want, WriteDone

HOME = "/var/lib/pvectl"
GRUB = "/etc/default/grub.d/pvectl.cfg"
VFIO = "/etc/modprobe.d/vfio.conf"
OLD = "/etc/modprobe.d/nvidia.conf"
GRUB_CFG = "/boot/grub/grub.cfg"
GRUB_ENV = "/boot/grub/grubenv"
CUSTOM = "/boot/grub/custom.cfg"
SYSTEM = "/etc/systemd/system"
WANTS = f"{SYSTEM}/timers.target.wants"
KILLED = -9
REAL = 10**15
"""Times after it are the real clock's: such a file was written just now."""
ONCE_CMDLINE = "quiet iommu=pt"
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
Mode = Literal["before", "after", "full"]


class ControllerDied(BaseException):
    """SIGKILL in the middle of a call."""


class NotListed(AssertionError):
    """A command that the fake does not know."""


@dataclass
class File:
    data: bytes
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    mtime_ns: int = 1_000

    def meta(self, path: str) -> FileMeta:
        return FileMeta(
            path=path,
            sha256=hashlib.sha256(self.data).hexdigest(),
            mode=self.mode,
            uid=self.uid,
            gid=self.gid,
            mtime_ns=self.mtime_ns,
        )


@dataclass
class Fuse:
    """Blows at call number ``at``: before or after the call took effect, or since the disk is full."""

    at: int
    mode: Mode
    error: Callable[[], BaseException]
    blown: bool = False


@dataclass
class Guest:
    values: dict[str, str]
    running: bool = False
    node: str = "pve1"


class FakeHost:
    """Two GPUs, one NIC; ``iommu=pt`` in grub.cfg moves the groups of the GPUs from 10, 11 to 20, 21."""

    def __init__(self) -> None:
        self.files: dict[str, File] = {
            "/etc/default/grub": File(b'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'),
            VFIO: File(b"# by hand \xff\n", mode=0o640, uid=7, gid=8, mtime_ns=123_456_789),
            OLD: File(b"blacklist nvidia\n", mtime_ns=77),
            GRUB_CFG: File(b"linux quiet\n"),
        }
        self.files[GRUB_ENV] = File(b"# GRUB Environment Block\n")
        self.folders = {"/", "/etc", "/etc/default", "/etc/modprobe.d", "/boot", "/boot/grub", "/var", "/var/lib"}
        self.folders |= {"/etc/systemd", SYSTEM, WANTS}
        self.unsynced: dict[str, File | None] = {}
        """What commands wrote since the last sync, as it still stands on the disk."""
        self.starts: dict[int, int] = {}
        self.system = "running"
        self.has_network = True
        self.boots = 1
        self.cmdline = "quiet"
        self.reboots_wrong = False
        self.mappings: dict[str, tuple[tuple[str, ...], str | None]] = {
            "pool": ((entry("41", 10), entry("61", 11)), "all of them"),
            "stale": ((entry("41", 3),), None),
        }
        self.guests = {
            100: Guest({"name": "llm", "memory": "4096", "hostpci0": "mapping=pool,pcie=1", "tags": "gpu"}),
            101: Guest({"name": "db"}),
        }
        self.quorate = True
        self.calls: list[str] = []
        self.commands: list[tuple[str, ...]] = []
        self.answers: dict[tuple[str, ...], RunResult] = {}
        """What further commands answer."""
        self.records = 0
        """Journal records that the controller has written or tried to write."""
        self.record_fuse: Callable[[int, Literal["before", "after"]], None] = lambda number, moment: None
        self.fuse: Fuse | None = None
        self.grub_result: RunResult | None = None
        self.start_result: TaskResult | None = None
        self.clock = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        self.monotonic = 0.0
        self.tokens = 0
        self.machine_id = "m1"
        self.ids = "10de:2bb5"

    # --- calls and their failures ---

    def call(self, name: str, act: Callable[[], Any], torn: Callable[[], None] | None = None) -> Any:
        self.calls.append(name)
        fuse = self.fuse
        if fuse is None:
            return act()
        if fuse.blown and fuse.mode != "full":
            raise fuse.error()
        if fuse.blown or len(self.calls) == fuse.at:
            return self._blow(fuse, name, act, torn)
        return act()

    def _blow(self, fuse: Fuse, name: str, act: Callable[[], Any], torn: Callable[[], None] | None) -> Any:
        fuse.blown = True
        if fuse.mode == "after":
            act()
        elif fuse.mode == "full" and not name.startswith(("write", "append", "make_folder")):
            return act()
        if torn is not None and fuse.mode != "after":
            torn()
        raise fuse.error()

    # --- what a boot does ---

    @property
    def boot_id(self) -> str:
        return f"boot-{self.boots}"

    def group(self, bus: str) -> int:
        base = {"41": 10, "61": 11}.get(bus, 0)
        moved = "iommu=pt" in self.cmdline and not self.reboots_wrong
        return base + 10 if moved else base

    def update_grub(self) -> None:
        pt = " iommu=pt" if GRUB in self.files and b"iommu=pt" in self.files[GRUB].data else ""
        self.cached(GRUB_CFG, File(f"linux quiet{pt}\n".encode()))

    def cached(self, path: str, file: File | None) -> None:
        """Write as a command does: without fsync."""
        self.unsynced.setdefault(path, self.files.get(path))
        self.put(path, file)

    def put(self, path: str, file: File | None) -> None:
        if file is None:
            self.files.pop(path, None)
        else:
            self.files[path] = file

    def crash(self) -> None:
        """Lose the power: every process ends, and what no sync has put on the disk is as it was there."""
        for path, old in self.unsynced.items():
            self.put(path, old)
        self.reboot()

    def systemctl(self, verb: str, *words: str) -> RunResult:
        name = words[-1] if words else ""
        link = f"{WANTS}/{name}"
        if verb == "is-system-running":
            return RunResult(argv=(), rc=0, stdout=self.system.encode())
        if verb == "is-enabled":
            return RunResult(
                argv=(), rc=0 if link in self.files else 1, stdout=b"enabled\n" if link in self.files else b""
            )
        if verb in ("enable", "disable"):
            if f"{SYSTEM}/{name}" not in self.files:
                return RunResult(argv=(), rc=1, stderr=f"Unit {name} does not exist".encode())
            if verb == "enable":
                self.cached(link, File(b""))
            elif link in self.files:
                self.cached(link, None)
        elif verb == "reboot":
            self.reboot()
        elif verb != "daemon-reload":
            raise NotListed(verb)
        return RunResult(argv=(), rc=0)

    def dead_man(self, folder: str, verb: str, uptime: float = 60.0, dies_at: int = 0) -> int:
        """Run the shipped program on this host's files; ``dies_at`` kills it at its command of that number."""
        with tempfile.TemporaryDirectory(dir=MEMORY) as root:
            return FilesOnDisk(self, Path(root), uptime, dies_at).run(folder, verb)

    def tick(self, uptime: float = 901.0, dies_at: int = 0) -> int:
        """What the timer does, where it is enabled."""
        unit = self.files.get(f"{SYSTEM}/pvectl-deadman.service")
        if unit is None or f"{WANTS}/pvectl-deadman.timer" not in self.files:
            return 0
        line = next(line for line in unit.data.decode().splitlines() if line.startswith("ExecStart="))
        try:
            return self.dead_man(*line.split()[-2:], uptime=uptime, dies_at=dies_at)
        except ControllerDied:
            return KILLED

    def confirmed_or_killed(self, folder: str, dies_at: int) -> int:
        try:
            return self.dead_man(folder, "confirm", dies_at=dies_at)
        except ControllerDied:
            return KILLED

    def reboot(self) -> None:
        self.unsynced.clear()
        self.starts: dict[int, int] = {}
        self.system = "running"
        self.boots += 1
        self.cmdline = self.load()
        for guest in self.guests.values():
            guest.running = False

    def load(self) -> str:
        """What the boot loader does: the entry that it is to take once, else the default."""
        default = self.files[GRUB_CFG].data.decode().removeprefix("linux ").strip()
        name = self.next_entry()
        if not name:
            return default
        self.set_next_entry("")
        self.unsynced.clear()  # GRUB writes to the disk itself
        custom = self.files[CUSTOM].data.decode() if CUSTOM in self.files else ""
        lines = [line.split(None, 2) for line in custom.splitlines() if line.split()[:1] == ["linux"]]
        return f"BOOT_IMAGE={lines[0][1]} {lines[0][2]}" if f"--id {name} " in custom else default

    def next_entry(self) -> str:
        lines = self.files[GRUB_ENV].data.decode().splitlines() if GRUB_ENV in self.files else []
        return next((line.removeprefix("next_entry=") for line in lines if line.startswith("next_entry=")), "")

    def set_next_entry(self, name: str) -> None:
        head = "# GRUB Environment Block\n"
        old = self.files[GRUB_ENV]
        text = f"{head}next_entry={name}\n" if name else head
        self.cached(GRUB_ENV, File(text.encode(), mtime_ns=old.mtime_ns))

    def grub_editenv(self, *words: str) -> RunResult:
        if words == ("-", "list"):
            name = self.next_entry()
            return RunResult(argv=(), rc=0, stdout=f"next_entry={name}\n".encode() if name else b"")
        if words != ("-", "unset", "next_entry"):
            raise NotListed(words)
        self.set_next_entry("")
        return RunResult(argv=(), rc=0)

    def pvesh(self, verb: str, path: str, words: Sequence[str]) -> bytes:
        """What the dead-man asks of Proxmox."""
        name = path.rpartition("/")[2]
        maps = tuple(value for key, value in pairwise(words) if key == "--map")
        options = {key: value for key, value in zip(words[::2], words[1::2], strict=True) if key != "--map"}
        if path == "/cluster/status":
            return json.dumps([{"type": "cluster", "quorate": int(self.quorate)}]).encode()
        if verb == "get":
            rows = [{"id": i, "map": list(e), "description": d} for i, (e, d) in self.mappings.items()]
            return json.dumps(rows).encode()
        if verb == "delete":
            del self.mappings[name]
        elif verb == "create":
            self.mappings[options["--id"]] = (maps, options.get("--description"))
        else:
            self.mappings[name] = (maps, options.get("--description", self.mappings[name][1]) or None)
        return b""

    # --- what is compared ---

    def snapshot(self) -> dict[str, Any]:
        """Everything but our own folder, which has a law of its own; guests by what they are to be."""
        return {
            "files": {p: vars(f).copy() for p, f in self.files.items() if not p.startswith(HOME)},
            "folders": {f for f in self.folders if not f.startswith(HOME)},
            "mappings": dict(self.mappings),
            "guests": {vmid: dict(g.values) for vmid, g in self.guests.items()},
            "running": {vmid for vmid, g in self.guests.items() if g.running},
        }

    # --- the model ---

    def model(self) -> HostModel:
        functions = tuple(self._gpu(bus) for bus in ("41", "61"))
        return HostModel(
            hostname="pve1",
            machine_id=self.machine_id,
            kernel=Kernel(
                release="6.14",
                running_cmdline=self.cmdline,
                boot_id=self.boot_id,
                modules=(),
                cpu_vendor="AuthenticAMD",
                phys_bits=48,
                memory_bytes=1,
                numa_nodes=(0,),
            ),
            boot=BootLoader(kind="grub", cmdline_file="/etc/default/grub", evidence=()),
            iommu=Iommu(
                units=("ivhd0",),
                firmware_table="IVRS",
                groups=tuple(IommuGroup(number=f.iommu_group, members=(f.bdf,)) for f in functions),
            ),
            pci=functions,
            disks=(),
            interfaces=(),
            console=Console(has_bmc=True, boot_vga=None, serial=True),
            proxmox=self._proxmox(),
            files={path: self._file(path) for path in (GRUB, VFIO, OLD)},
        )

    def _gpu(self, bus: str) -> PciFunction:
        vendor, device = (int(part, 16) for part in self.ids.split(":"))
        config = ConfigSpace(
            length=4096,
            header_type=0,
            port_type="endpoint",
            acs=None,
            dsn=f"00000000000000{bus}",
            has_flr=True,
            sriov_total_vfs=None,
            rebar=True,
            clique=None,
        )
        return PciFunction(
            bdf=f"0000:{bus}:00.0",
            vendor=vendor,
            device=device,
            class_code=0x030200,
            subsystem_vendor=0x10DE,
            subsystem_device=0x204B,
            root=f"pci0000:{bus}",
            root_acpi_path=f"\\_SB_.S{bus}",
            iommu_group=self.group(bus),
            config=config,
        )

    def _file(self, path: str) -> FileState:
        file = self.files.get(path)
        sha256 = file.meta(path).sha256 if file else None
        return FileState(path=path, content=file.data.decode("utf-8", "replace") if file else None, sha256=sha256)

    def _proxmox(self) -> Proxmox:
        mappings = tuple(
            PciMapping(id=name, entries=tuple(_entry(raw) for raw in entries), description=description)
            for name, (entries, description) in self.mappings.items()
        )
        return Proxmox(
            version="9.0.3",
            node="pve1",
            quorate=self.quorate,
            mappings=mappings,
            mapping_file=FileState(path="/etc/pve/mapping/pci.cfg", content="", sha256=""),
            vms=tuple(self._vm(vmid) for vmid in self.guests),
        )

    def _vm(self, vmid: int) -> Vm:
        guest = self.guests[vmid]
        slots = tuple(
            HostPci(index=int(key[7:]), mapping=parse(value).get("mapping"), host=None, options={})
            for key, value in guest.values.items()
            if key.startswith("hostpci")
        )
        return Vm(
            vmid=vmid,
            node=guest.node,
            name=guest.values["name"],
            status="running" if guest.running else "stopped",
            config_text=self.vm_text(vmid),
            config=dict(guest.values),
            hostpci=slots,
        )

    def vm_text(self, vmid: int) -> str:
        return "".join(f"{key}: {value}\n" for key, value in sorted(self.guests[vmid].values.items()))


class FilesOnDisk:
    """A fake host's files as real ones, for a program that runs on the host; what it changed goes back."""

    def __init__(self, host: FakeHost, root: Path, uptime: float, dies_at: int) -> None:
        self.host, self.root, self.dies_at = host, root, dies_at
        self.written: dict[str, bytes] = {}
        self.calls = 0
        self._out()
        about = {"proc/uptime": f"{uptime} 0\n", BOOT_ID[1:]: f"{host.boot_id}\n", "proc/cmdline": f"{host.cmdline}\n"}
        for path, text in about.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        conf = root / "etc/pve/nodes/pve1/qemu-server"
        conf.mkdir(parents=True)
        for vmid in host.guests:
            (conf / f"{vmid}.conf").write_text(host.vm_text(vmid))

    def _out(self) -> None:
        """Bring files that are new or changed on the host to the disk."""
        for folder in self.host.folders:
            (self.root / folder[1:]).mkdir(parents=True, exist_ok=True)
        for path in set(self.written) - set(self.host.files):
            (self.root / path[1:]).unlink()
            del self.written[path]
        for path, file in self.host.files.items():
            if self.written.get(path) != file.data:
                place = self.root / path[1:]
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(file.data)
                place.chmod(file.mode)
                os.utime(place, ns=(file.mtime_ns, file.mtime_ns))
                self.written[path] = file.data

    def _back(self) -> None:
        for path in [path for path in self.written if not (self.root / path[1:]).exists()]:
            self.host.files.pop(path, None)
            del self.written[path]
        for place in (p for p in self.root.rglob("*") if p.is_file()):
            path = f"/{place.relative_to(self.root)}"
            if path.startswith(("/proc", "/etc/pve/")) or self.written.get(path) == place.read_bytes():
                continue
            about = place.stat()
            data = place.read_bytes()
            mtime_ns = about.st_mtime_ns if about.st_mtime_ns < REAL else 5_000
            self.host.files[path] = File(data, about.st_mode & 0o7777, about.st_uid, about.st_gid, mtime_ns)
            self.written[path] = data

    def run(self, folder: str, verb: str) -> int:
        real = onboard_run.Run.write
        try:
            with patch.object(onboard_run.Run, "write", lambda run, event: self._write(real, run, event)):
                return deadman_program.main((folder, verb), str(self.root), self._run, self)
        finally:
            self._back()

    def _write(self, real: Any, run: Any, event: dict[str, Any]) -> None:
        """A record that the program writes for a step counts like one of the controller."""
        if event["event"] == "dead-man":
            real(run, event)
            return
        self.host.records += 1
        number = self.host.records
        try:
            self.host.record_fuse(number, "before")
            real(run, event)
            self.host.record_fuse(number, "after")
        except PvectlError as error:
            if isinstance(error, ConnectionCut):
                raise
            raise OSError(28, "No space left on device") from error

    def _run(self, argv: tuple[str, ...], stdin: bytes, timeout: float, env: object) -> tuple[int, bytes, bytes, bool]:
        self.calls += 1
        if self.calls == self.dies_at:
            raise ControllerDied
        self._back()
        boots = self.host.boots
        answer = self._command(argv)
        if self.host.boots == boots:
            self._out()
        return answer

    def _command(self, argv: tuple[str, ...]) -> tuple[int, bytes, bytes, bool]:
        host = self.host
        host.commands.append(argv)
        if argv[0] == "pvesh":
            return 0, host.pvesh(argv[1], argv[2], argv[3:]), b"", False
        done = FakeSession(host).command(argv)
        return done.rc, done.stdout, done.stderr, False

    def listens(self, address: str) -> bool:
        return self.host.has_network

    def answers(self, gateway: str) -> bool:
        return self.host.has_network


def entry(bus: str, group: int, ids: str = "10de:2bb5") -> str:
    return f"id={ids},iommugroup={group},node=pve1,path=0000:{bus}:00.0,subsystem-id=10de:204b"


def _entry(raw: str) -> MappingEntry:
    values = parse(raw)
    return MappingEntry(
        node=values["node"],
        path=values["path"],
        id=values["id"],
        subsystem_id=values.get("subsystem-id"),
        iommugroup=int(values["iommugroup"]) if "iommugroup" in values else None,
        description=None,
        raw=raw,
    )


class FakeSession:
    def __init__(self, host: FakeHost) -> None:
        self.host = host
        self.boot = host.boots
        self.target = "root@pve1"
        self.host_key = "SHA256:key"
        self.euid = 0
        self.closed = False

    def _call(self, name: str, act: Callable[[], Any], torn: Callable[[], None] | None = None) -> Any:
        if self.boot != self.host.boots or self.closed:
            raise ConnectionCut("Unable to reach root@pve1: the connection was cut", "connect again", "pve1")
        return self.host.call(name, act, torn)

    def read(self, wants: Sequence[Want], *, deadline: float = 60.0) -> list[Read]:
        return self._call("read " + wants[0].pattern, lambda: [r for w in wants for r in self._read(w)])

    def _read(self, want: Want) -> list[Read]:
        if want.kind == "dir":
            return [self._folder(want.pattern)]
        if want.pattern == "/proc/cmdline":
            return [self._found(want.pattern, File(f"{self.host.cmdline}\n".encode()))]
        if want.pattern == BOOT_ID:
            return [self._found(BOOT_ID, File(f"{self.host.boot_id}\n".encode()))]
        paths = [p for p in sorted(self.host.files) if _matches(p, want.pattern)]
        return [self._found(p, self.host.files[p]) for p in paths] or [
            Read(item=Item(subject="host", key=want.pattern, kind="file", state="absent"))
        ]

    def _found(self, path: str, file: File) -> Read:
        item = Item(
            subject="host",
            key=path,
            kind="file",
            state="read",
            mode=file.mode,
            uid=file.uid,
            gid=file.gid,
            mtime_ns=file.mtime_ns,
        )
        return Read(item=item, data=file.data)

    def _folder(self, path: str) -> Read:
        state: Literal["read", "absent"] = "read" if path in self.host.folders else "absent"
        every = [*self.host.files, *self.host.folders]
        names = sorted({p.removeprefix(path + "/").split("/")[0] for p in every if p.startswith(path + "/")})
        return Read(
            item=Item(subject="host", key=path, kind="dir", state=state), data="".join(f"{n}\n" for n in names).encode()
        )

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 60.0, env: dict[str, str] | None = None
    ) -> RunResult:
        return self._call("run " + argv[0], lambda: self._run(tuple(argv)))

    def _run(self, argv: tuple[str, ...]) -> RunResult:
        self.host.commands.append(argv)
        if argv[:2] == ("python3", "-I"):
            said, complained = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
                rc = self.host.dead_man(argv[3], argv[4])
            return RunResult(argv=argv, rc=rc, stdout=said.getvalue().encode(), stderr=complained.getvalue().encode())
        return self.command(argv)

    def command(self, argv: tuple[str, ...]) -> RunResult:
        if argv in self.host.answers:
            return self.host.answers[argv]
        if argv == ("update-grub",):
            if self.host.grub_result:
                return self.host.grub_result
            self.host.update_grub()
        elif argv[0] == "grub-reboot":
            self.host.set_next_entry(argv[1])
        elif argv[0] == "grub-editenv":
            return self.host.grub_editenv(*argv[1:])
        elif argv[0] == "systemctl":
            return self.host.systemctl(*argv[1:])
        elif argv == ("sync",):
            self.host.unsynced.clear()
        elif argv[0] not in ("update-initramfs", "udevadm", "proxmox-boot-tool"):
            raise NotListed(argv)
        return RunResult(argv=argv, rc=0)

    def write(self, path: str, data: bytes, *, expect: str | None, **wish: Any) -> WriteDone:
        return self._call(f"write {path}", lambda: self._write(path, data, expect, wish))

    def _write(self, path: str, data: bytes, expect: str | None, wish: dict[str, Any]) -> WriteDone:
        before = self._meta(path, expect)
        folder = path.rpartition("/")[0]
        if wish.pop("make_parents", False):
            self._make(folder)
        assert folder in self.host.folders, f"{folder} does not exist"
        old = self.host.files.get(path)
        wish = {key: value for key, value in wish.items() if value is not None}
        kept = {k: v for k, v in vars(old).items() if k not in ("data", "mtime_ns")} if old else {}
        self.host.files[path] = File(data, **{"mtime_ns": 5_000, **kept, **wish})
        return WriteDone(before=before, after=self.host.files[path].meta(path))

    def _meta(self, path: str, expect: str | None) -> FileMeta:
        file = self.host.files.get(path)
        meta = file.meta(path) if file else FileMeta(path=path, sha256=None)
        if meta.sha256 != expect:
            raise StalePlan(f"Unable to write {path} on root@pve1: its content has changed", "plan again", (path,))
        return meta

    def remove(self, path: str, *, expect: str) -> WriteDone:
        return self._call(f"remove {path}", lambda: self._remove(path, expect))

    def _remove(self, path: str, expect: str) -> WriteDone:
        before = self._meta(path, expect)
        del self.host.files[path]
        return WriteDone(before=before, after=FileMeta(path=path, sha256=None))

    def append(self, path: str, data: bytes) -> None:
        self.host.records += 1
        number = self.host.records
        self.host.record_fuse(number, "before")
        self._call("append", lambda: self._append(path, data), lambda: self._append(path, data[: len(data) // 2]))
        self.host.record_fuse(number, "after")

    def _append(self, path: str, data: bytes) -> None:
        file = self.host.files.setdefault(path, File(b"", mode=0o600))
        file.data += data

    def make_folder(self, path: str, *, mode: int = 0o700) -> None:
        self._call(f"make_folder {path}", lambda: self._make(path))

    def _make(self, path: str) -> None:
        parts = path.strip("/").split("/")
        self.host.folders |= {"/" + "/".join(parts[: i + 1]) for i in range(len(parts))}

    def remove_folder(self, path: str) -> None:
        self._call(f"remove_folder {path}", lambda: self._remove_folder(path))

    def _remove_folder(self, path: str) -> None:
        inside = [p for p in (*self.host.files, *self.host.folders) if p.startswith(path + "/")]
        if inside:
            raise PvectlError(f"Unable to remove {path}: it is not empty: {inside}")
        self.host.folders.discard(path)

    def python(self, source: bytes, argv: Sequence[str] = (), *, stdin: bytes = b"", timeout: float = 1) -> RunResult:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True


def _matches(path: str, pattern: str) -> bool:
    return path.count("/") == pattern.count("/") and fnmatch.fnmatchcase(path, pattern)


class FakePve:
    way: Literal["api", "shell"] = "shell"
    is_root = True
    has_root = True
    node = "pve1"

    def __init__(self, host: FakeHost) -> None:
        self.host = host

    def version(self) -> str:
        return "9.0.3"

    def quorate(self) -> bool:
        return self.host.call("quorate", lambda: self.host.quorate)

    def _digest(self) -> str:
        return text_digest(repr(self.host.mappings))

    def mappings(self, *, check_node: bool = False) -> tuple[MappingRow, ...]:
        return self.host.call("mappings", lambda: tuple(self._row(name, check_node) for name in self.host.mappings))

    def _row(self, id: str, check_node: bool) -> MappingRow:
        entries, description = self.host.mappings[id]
        ours = [e for e in entries if parse(e)["node"] == "pve1"]
        wrong = [e for e in ours if int(parse(e)["iommugroup"]) != self.host.group(parse(e)["path"][5:7])]
        checks = tuple(CheckMessage(severity="error", message=f"Invalid configuration: {e}\n") for e in wrong)
        return MappingRow(
            id=id,
            entries=entries,
            digest=self._digest(),
            description=description,
            checks=checks if check_node else (),
        )

    def mapping_create(self, id: str, entries: tuple[str, ...], description: str | None = None) -> None:
        def act() -> None:
            if id in self.host.mappings:
                raise PvectlError(f"pci ID '{id}' already defined")
            self.host.mappings[id] = (entries, description)

        self.host.call(f"mapping_create {id}", act)

    def mapping_update(self, id: str, entries: tuple[str, ...], digest: str, description: str | None = None) -> None:
        def act() -> None:
            if digest != self._digest():
                raise StaleDigest("detected modified configuration")
            kept = self.host.mappings[id][1]
            self.host.mappings[id] = (entries, kept if description is None else description or None)

        self.host.call(f"mapping_update {id}", act)

    def mapping_delete(self, id: str) -> None:
        self.host.call(f"mapping_delete {id}", lambda: self.host.mappings.pop(id, None))

    def vm_config(self, vmid: int) -> VmConfig:
        def act() -> VmConfig:
            return VmConfig(values=dict(self.host.guests[vmid].values), digest=text_digest(self.host.vm_text(vmid)))

        return self.host.call(f"vm_config {vmid}", act)

    def vm_set(self, vmid: int, set: dict[str, str], delete: tuple[str, ...], digest: str) -> None:
        def act() -> None:
            assert not self.host.guests[vmid].running or {*set, *delete} <= {"onboot"}
            assert digest == text_digest(self.host.vm_text(vmid))
            values = self.host.guests[vmid].values
            values.update(set)
            for key in delete:
                del values[key]

        self.host.call(f"vm_set {vmid}", act)

    def vm_status(self, vmid: int) -> Literal["running", "stopped"]:
        return self.host.call("vm_status", lambda: "running" if self.host.guests[vmid].running else "stopped")

    def vm_start(self, vmid: int, *, timeout: float | None = None, progress: Any = None) -> TaskResult:
        return self.host.call(f"vm_start {vmid}", lambda: self._power(vmid, True))

    def vm_shutdown(self, vmid: int, *, timeout: float, progress: Any = None) -> TaskResult:
        return self.host.call(f"vm_shutdown {vmid}", lambda: self._power(vmid, False))

    def _power(self, vmid: int, running: bool) -> TaskResult:
        if running and self.host.start_result:
            return self.host.start_result
        self.host.guests[vmid].running = running
        self.host.starts[vmid] = self.host.starts.get(vmid, 0) + running
        return TaskResult(upid="UPID:x", ok=True, exitstatus="OK")

    def vm_showcmd(self, vmid: int) -> str | None:
        return None

    def vm_ids(self) -> tuple[int, ...]:
        return self.host.call("vm_ids", lambda: tuple(sorted(self.host.guests)))

    def vm_starts(self, vmid: int) -> int:
        return self.host.call(f"vm_starts {vmid}", lambda: self.host.starts.get(vmid, 0))

    def vm_create(self, vmid: int, options: Any, *, progress: Any) -> TaskResult:
        def act() -> TaskResult:
            assert vmid not in self.host.guests
            made = {key: _volume(vmid, value) if key == "scsi0" else value for key, value in options.items()}
            self.host.guests[vmid] = Guest(values=made)
            return TaskResult(upid="UPID:x", ok=True, exitstatus="OK")

        return self.host.call(f"vm_create {vmid}", act)

    def vm_resize(self, vmid: int, disk: str, size: str, *, progress: Any) -> TaskResult:
        def act() -> TaskResult:
            values = self.host.guests[vmid].values
            values[disk] = f"{values[disk].partition(',size=')[0]},size={size}"
            return TaskResult(upid="UPID:x", ok=True, exitstatus="OK")

        return self.host.call(f"vm_resize {vmid}", act)

    def vm_settle(self, vmid: int, *, progress: Any) -> None:
        """Nothing runs here by itself."""

    def vm_destroy(self, vmid: int, *, progress: Any) -> TaskResult:
        def act() -> TaskResult:
            assert not self.host.guests.pop(vmid).running
            return TaskResult(upid="UPID:x", ok=True, exitstatus="OK")

        return self.host.call(f"vm_destroy {vmid}", act)

    def node_reboot(self) -> None:
        self.host.call("node_reboot", self.host.reboot)

    def permissions(self) -> dict[str, tuple[str, ...]]:
        return {}


def _volume(vmid: int, asked: str) -> str:
    """Return the disk as it is named once an image was copied to it."""
    return f"{asked.partition(':')[0]}:vm-{vmid}-disk-0,size=3584M"


def _cut() -> ConnectionCut:
    return ConnectionCut("Unable to reach pve1: the connection was cut", "connect again", "pve1")


def _full() -> PvectlError:
    return PvectlError("Unable to write on pve1: no space left on device", "make room there")


WAYS: dict[str, tuple[Mode, Callable[[], BaseException]]] = {
    "controller dies before": ("before", ControllerDied),
    "controller dies after": ("after", ControllerDied),
    "connection cut before": ("before", _cut),
    "connection cut after": ("after", _cut),
    "disk full": ("full", _full),
}


@dataclass
class Bench:
    """A host and the verbs on it."""

    host: FakeHost = field(default_factory=FakeHost)
    options: dict[str, Any] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    answer: bool = True
    interrupted: Callable[[], bool] = lambda: False

    def seams(self) -> Seams:
        def now() -> datetime:
            self.host.clock += timedelta(milliseconds=10)
            return self.host.clock

        def token() -> str:
            self.host.tokens += 1
            return f"{(self.host.tokens * 0x9E3779) & 0xFFFFFF:06x}"  # no order in it

        def sleep(seconds: float) -> None:
            self.host.monotonic += seconds

        return Seams(
            read_host=self._read_host,
            sleep=sleep,
            monotonic=lambda: self.host.monotonic,
            now=now,
            token=token,
            interrupted=lambda: self.interrupted(),  # noqa: PLW0108  (a test may replace it later)
        )

    def _read_host(self, session: FakeSession) -> HostModel:
        return session._call("read_host", self.host.model)

    def connect(self) -> FakeSession:
        fuse = self.host.fuse
        if fuse is not None and fuse.blown and fuse.mode != "full":
            error = fuse.error()
            raise ConnectionRefused("Unable to reach pve1: refused") if isinstance(error, PvectlError) else error
        return FakeSession(self.host)

    def _common(self, allow: dict[str, Any]) -> dict[str, Any]:
        return {
            "options": ApplyOptions(host="pve1", **{"stop_guests": True, **self.options, **allow}),
            "report": self.said.append,
            "connect": self.connect,
            "connect_pve": lambda _: FakePve(self.host),
            "seams": self.seams(),
        }

    def ask(self, question: str) -> bool:
        self.asked.append(question)
        return self.answer

    def apply(self, plan: Plan, **allow: Any) -> RunOutcome:
        return apply_plan(plan, self.connect(), FakePve(self.host), ask=self.ask, **self._common(allow))

    def resume(self, run: str | None = None, **allow: Any) -> RunOutcome:
        return resume(run, self.connect(), FakePve(self.host), **self._common(allow))

    def rollback(self, run: str | None = None, **allow: Any) -> RunOutcome:
        return rollback(run, self.connect(), FakePve(self.host), ask=self.ask, **self._common(allow))

    def rollback_to(self, run: str, **allow: Any) -> RunOutcome:
        return rollback_to(run, self.connect(), FakePve(self.host), ask=self.ask, **self._common(allow))

    def rollback_all(self, **allow: Any) -> RunOutcome:
        return rollback_all(self.connect(), FakePve(self.host), ask=self.ask, **self._common(allow))

    def plan(self) -> Plan:
        return full_plan(self.host)

    def broken(self, at: int, way: str, act: Callable[[], RunOutcome]) -> BaseException | RunOutcome:
        """Do ``act`` with its call number ``at`` failing, heal the host, and return what came of it."""
        mode, error = WAYS[way]
        self.host.fuse = Fuse(len(self.host.calls) + at, mode, error)
        try:
            return act()
        except (ControllerDied, PvectlError) as stopped:
            return stopped
        finally:
            self.host.fuse = None

    def ours(self) -> list[str]:
        return sorted(p for p in (*self.host.files, *self.host.folders) if p.startswith(HOME))

    def journal(self, run: str) -> str:
        return self.host.files[f"{HOME}/runs/{run}/journal.jsonl"].data.decode()


def change(id: str, operation: Any, **more: Any) -> Change:
    return Change(
        id=id, title=f"do {id}", operation=operation, diff="", reason="", privilege="root-shell", undo="", **more
    )


def basis(host: FakeHost) -> Basis:
    digests = {path: host._file(path).sha256 or ABSENT for path in (GRUB, VFIO, OLD)}
    digests |= {f"mapping/{name}": mapping_digest(entries) for name, (entries, _) in host.mappings.items()}
    digests |= {"mapping/gpu-0": mapping_digest(host.mappings["gpu-0"][0] if "gpu-0" in host.mappings else None)}
    digests |= {f"vm/{vmid}": vm_digest(host.vm_text(vmid)) for vmid in host.guests}
    return Basis(machine_id="m1", node="pve1", host_key="SHA256:key", boot_id=host.boot_id, digests=digests)


def full_plan(host: FakeHost) -> Plan:
    """Every operation there is: files, generators, mappings, a VM that runs, a reboot."""
    boot = {"needs_reboot": True}
    later = {"confirm_after_reboot": True}
    changes = (
        change("boot.cmdline", FileWrite(path=GRUB, content="iommu=pt\n", expect=None), **boot),
        change("boot.update", ActionRun(name="update-grub"), depends_on=("boot.cmdline",), **boot),
        change(
            "binding.vfio",
            FileWrite(path=VFIO, content="options vfio-pci\n", expect=host._file(VFIO).sha256),
            **boot,
        ),
        change("binding.old", FileRemove(path=OLD, expect=host._file(OLD).sha256 or "")),
        change("binding.initramfs", ActionRun(name="update-initramfs"), **boot),
        change("binding.udev", ActionRun(name="udev-reload")),
        change("mapping.gpu-0", MappingPut(id="gpu-0", entries=(entry("41", 20),), before=None), **later),
        change(
            "mapping.pool",
            MappingPut(
                id="pool",
                entries=(entry("41", 20), entry("61", 21)),
                before=host.mappings["pool"][0],
                description="pvectl",
            ),
            **later,
        ),
        change("mapping.stale", MappingDelete(id="stale", before=host.mappings.get("stale", ((), None))[0])),
        change(
            "vm.100",
            VmSet(
                vmid=100,
                set={"hostpci0": "mapping=gpu-0,pcie=1", "balloon": "0"},
                delete=("tags",),
                before={"hostpci0": "mapping=pool,pcie=1", "balloon": None, "tags": "gpu"},
            ),
        ),
        change("reboot", ActionRun(name="reboot"), **boot),
    )
    rows = tuple(
        GpuRow(
            bdf=f"0000:{bus}:00.0", ids=host.ids, group_now=host.group(bus), group_after=after, mapping="pool", vmid=100
        )
        for bus, after in (("41", 20), ("61", 21))
    )
    running = (100,) if host.guests[100].running else ()
    return Plan(
        host="pve1",
        basis=basis(host),
        changes=changes,
        unchanged=(),
        expectations=tuple(
            Expectation(check="mapping-valid", subject=f"mapping/{name}", expected="valid")
            for name in ("gpu-0", "pool")
        ),
        gpus=rows,
        stops_guests=running,
        starts_guests=(100,),
    )


def with_once(plan: Plan) -> Plan:
    """Return the plan as it is where GRUB can undo by itself: a one-shot entry, and the default at the confirmation."""
    content = f"# pvectl: once\nmenuentry 'x' --id pvectl-once {{\n\tlinux /vmlinuz {ONCE_CMDLINE}\n}}\n"
    once = change(
        "boot.once",
        BootOnce(loader="grub", content=content, cmdline=ONCE_CMDLINE),
        needs_reboot=True,
    )
    later = {"boot.cmdline", "boot.update"}
    changes = [c.model_copy(update={"phase": "at-confirm"}) if c.id in later else c for c in plan.changes]
    digests = {**plan.basis.digests, GRUB_CFG: ABSENT}
    basis = plan.basis.model_copy(update={"digests": digests})
    return plan.model_copy(update={"changes": (once, *changes), "basis": basis, "confirm_within": 15})


class FieldHost(FakeHost):
    """The host of the field report in memory: its model as it was read, with files, objects and boots that change."""

    def __init__(self, model: HostModel, plan: Plan) -> None:
        super().__init__()
        self.base, self.planned = model, plan
        paths = {c.operation.path for c in plan.changes if isinstance(c.operation, (FileWrite, FileRemove))}
        states = [model.files[path] for path in sorted(paths | set(model.files)) if path in model.files]
        self.files = {s.path: File(s.content.encode(), s.mode or 0o644) for s in states if isinstance(s.content, str)}
        self.cmdline = str(model.kernel.running_cmdline)
        self.files[GRUB_CFG] = File(f"linux {self.cmdline}\n".encode())
        for path in (*self.files, f"{WANTS}/x", "/var/lib/x"):
            self.folders |= {str(parent) for parent in Path(path).parents}
        self.mappings = {m.id: (tuple(e.raw for e in m.entries), m.description) for m in model.proxmox.mappings}
        self.guests = {vm.vmid: Guest(dict(vm.config), False, vm.node) for vm in model.proxmox.vms}
        self.texts = {vm.vmid: (dict(vm.config), vm.config_text) for vm in model.proxmox.vms}
        self.drivers: dict[str, str | None] = {}
        self.is_new = False

    def vm_text(self, vmid: int) -> str:
        values, text = self.texts[vmid]
        return text if self.guests[vmid].values == values else super().vm_text(vmid)

    def group(self, bus: str) -> int:
        row = next(row for row in self.planned.gpus if row.bdf[5:7] == bus)
        return int((row.group_after if self.is_new else row.group_now) or 0)

    def update_grub(self) -> None:
        line = GrubDefaults({p: f.data.decode() for p, f in self.files.items() if p.startswith("/etc/default/grub")})
        kept = [w for w in self.cmdline.split() if w.startswith(("BOOT_IMAGE", "root=", "ro"))]
        words = [token.raw for token in line.cmdline().kernel]
        self.cached(GRUB_CFG, File(f"linux {' '.join([*kept, *words])}\n".encode()))

    def reboot(self) -> None:
        super().reboot()
        self.is_new = "iommu=pt" in self.cmdline.split()
        rules = "".join(f.data.decode() for p, f in self.files.items() if p.startswith("/etc/udev/rules.d/"))
        self.drivers = {row.bdf: "vfio-pci" for row in self.planned.gpus if row.bdf in rules}

    def model(self) -> HostModel:
        base = self.base
        wanted = {row.bdf: row for row in self.planned.gpus}
        pci = tuple(self._function(f) if f.bdf in wanted else f for f in base.pci)
        mappings = tuple(
            PciMapping(id=name, entries=tuple(_entry(raw) for raw in entries), description=description)
            for name, (entries, description) in self.mappings.items()
        )
        vms = tuple(self._changed(vm) for vm in base.proxmox.vms)
        kernel = base.kernel.model_copy(update={"running_cmdline": self.cmdline, "boot_id": self.boot_id})
        proxmox = base.proxmox.model_copy(update={"mappings": mappings, "vms": vms})
        files = {**base.files, **{path: self._file(path) for path in {*base.files, *self.files} if path in base.files}}
        return base.model_copy(update={"pci": pci, "kernel": kernel, "proxmox": proxmox, "files": files})

    def _function(self, function: PciFunction) -> PciFunction:
        driver = self.drivers.get(function.bdf, function.driver if self.boots == 1 else "nouveau")
        return function.model_copy(update={"driver": driver, "iommu_group": self.group(function.bdf[5:7])})

    def _changed(self, vm: Vm) -> Vm:
        guest = self.guests[vm.vmid]
        now = {"config": dict(guest.values), "config_text": self.vm_text(vm.vmid)}
        return vm.model_copy(update={**now, "status": "running" if guest.running else "stopped"})


@dataclass
class FieldBench(Bench):
    def plan(self) -> Plan:
        """The plan as it was made; what the host has become since is for apply to find out."""
        host = self.host
        assert isinstance(host, FieldHost)
        basis = host.planned.basis.model_copy(update={"host_key": "", "boot_id": host.boot_id})
        return host.planned.model_copy(update={"basis": basis})


@pytest.fixture(scope="session")
def field_report() -> tuple[HostModel, Plan]:
    """Model and plan of the simulated host with eight GPUs, read over SSH."""
    from provision.apply.outcome import read_host_now
    from provision.cli.context import open_session, resolve
    from provision.cli.planning import plan_for
    from provision.lab.supervisor import running

    with running("epyc-8x-rtxpro6000") as lab:
        site = resolve(None, lab.inventory)
        with open_session(site) as session:
            model = read_host_now(session)
        return model, plan_for(site, model)


@pytest.fixture
def field_bench(field_report: tuple[HostModel, Plan]) -> Callable[[], Bench]:
    return lambda: FieldBench(host=FieldHost(*field_report))


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.host.guests[100].running = True
    return made


@dataclass
class OnceBench(Bench):
    def plan(self) -> Plan:
        return with_once(full_plan(self.host))


@pytest.fixture
def once_bench() -> Callable[[], Bench]:
    """Benches of a host on which GRUB can undo by itself."""

    def make() -> Bench:
        made = OnceBench()
        made.host.guests[100].running = True
        return made

    return make


@pytest.fixture
def fresh_bench() -> Callable[[], Bench]:
    def make() -> Bench:
        made = Bench()
        made.host.guests[100].running = True
        return made

    return make


@pytest.fixture(params=list(WAYS))
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)
