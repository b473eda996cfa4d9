"""Lab machines as host models, read by the shipped agent inside the lab's root folder; and plans on them."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from provision.boot.once import ENTRY
from provision.capture.collect import collect_host
from provision.capture.model import Capture
from provision.evidence import Maybe
from provision.host.assemble import assemble
from provision.host.model import FileState, HostModel
from provision.inventory.models import Host, Policies
from provision.lab import esp, grub, grub_env
from provision.lab.boot import boot
from provision.lab.host import LabHost
from provision.lab.install import install
from provision.lab.machine import load_machine
from provision.plan.digests import text_digest
from provision.plan.make import make_plan
from provision.plan.model import BootOnce, FileRemove, FileWrite, MappingPut, Plan, VmSet
from provision.pve.mapping import MAPPING_FILE, MappingFile, parse_entry, write_file
from provision.pve.model import PciMapping
from provision.pve.vm_config import VmConfigFile, hostpci_slots
from provision.remote import bootstrap
from provision.remote.channel import SocketChannel
from provision.remote.client import AgentSession, Peer

COMMANDS = {
    "update-grub": ("update-grub",),
    "update-initramfs": ("update-initramfs", "-u", "-k", "all"),
    "udev-reload": ("udevadm", "control", "--reload"),
}


class LabMachine:
    """One machine in a folder: read it, write to it, boot it."""

    def __init__(self, name: str, root: Path, cmdline: str | None = None) -> None:
        self.machine = load_machine(name)
        if cmdline is not None:
            setup = self.machine.boot.model_copy(update={"cmdline": cmdline})
            self.machine = self.machine.model_copy(update={"boot": setup})
        self.root = root
        install(self.machine, root)
        boot(self.machine, root, first=True)
        self.host = LabHost(self.machine, root)

    def capture(self) -> Capture:
        with self._session() as session:
            return collect_host(session)

    def model(self) -> HostModel:
        return assemble(self.capture())

    def apply(self, plan: Plan) -> None:
        """Carry out a plan on the files, as Proxmox and the host's tools would."""
        before = [c for c in plan.changes if c.phase == "before-reboot"]
        for change in before:
            self._do(change.operation)
        if plan.needs_reboot:
            boot(self.machine, self.root, first=False)
        for change in plan.changes:
            if change.phase == "at-confirm":
                self._do(change.operation)
        for change in plan.changes:
            if change.phase == "after-reboot":
                self._do(change.operation)

    def _do(self, operation: Any) -> None:
        if isinstance(operation, FileWrite):
            self.write(operation.path, operation.content)
        elif isinstance(operation, FileRemove):
            self.path(operation.path).unlink()
        elif isinstance(operation, MappingPut):
            self._put(operation)
        elif isinstance(operation, VmSet):
            self._set(operation)
        elif isinstance(operation, BootOnce):
            self._boot_once(operation)
        elif operation.name == "boot-refresh":
            assert esp.refresh(self.root).rc == 0
        elif operation.name in COMMANDS:
            rc, out, err, _ = self._run(COMMANDS[operation.name], b"", 10, {})
            assert rc == 0, (operation, out, err)

    def _boot_once(self, operation: BootOnce) -> None:
        """The entry stays here; that it goes at the confirmation is for apply's tests."""
        if operation.loader == "grub":
            self.write(grub.CUSTOM_CFG, operation.content)
            grub_env.write(self.root, {"next_entry": ENTRY})
            return
        for uuid in operation.esps:
            entry = esp.esp_folder(self.root, uuid) / f"loader/entries/{ENTRY}.conf"
            entry.write_text(operation.content, encoding="utf-8")
        esp.set_variable(self.root, esp.ONE_SHOT, f"{ENTRY}.conf")

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def write(self, name: str, text: str) -> None:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _put(self, operation: MappingPut) -> None:
        present = self.path(MAPPING_FILE)
        file = MappingFile.parse(present.read_text(encoding="utf-8") if present.exists() else "")
        entries = tuple(entry for entry in map(parse_entry, operation.entries) if entry is not None)
        assert len(entries) == len(operation.entries)
        new = PciMapping(id=operation.id, entries=entries, description=operation.description)
        others = [m for m in file.mappings if m.id != operation.id]
        self.write(MAPPING_FILE, write_file([*others, new]))

    def _set(self, operation: VmSet) -> None:
        path = f"/etc/pve/nodes/{self.machine.node}/qemu-server/{operation.vmid}.conf"
        file = VmConfigFile.parse(self.path(path).read_text(encoding="utf-8"))
        for key, value in operation.set.items():
            file = file.set(key, value)
        for key in operation.delete:
            file = file.delete(key)
        self.write(path, file.render())

    def _run(self, argv: tuple[str, ...], stdin: bytes, _timeout: float, _env: Any) -> tuple[int, bytes, bytes, bool]:
        answer = asyncio.run(self.host.dispatch(argv, stdin))
        return answer.rc, answer.out.encode(), answer.err.encode(), False

    def _session(self) -> AgentSession:
        here, there = socket.socketpair()
        marker = bootstrap.new_marker()

        def serve() -> None:
            with there, there.makefile("rb") as stdin, there.makefile("wb") as stdout:
                bootstrap.serve(stdin, stdout, marker, root=str(self.root), runner=self._run, environ={"USER": "root"})

        threading.Thread(target=serve, daemon=True).start()
        return AgentSession.start(SocketChannel(here), Peer("lab"), marker)


@pytest.fixture
def lab(tmp_path: Path) -> Callable[..., LabMachine]:
    """``lab(name, cmdline=...)`` installs and boots a machine in a folder of this test."""

    def make(name: str = "epyc-8x-rtxpro6000", cmdline: str | None = None) -> LabMachine:
        root = tmp_path / name / "root"
        root.mkdir(parents=True)
        return LabMachine(name, root, cmdline)

    return make


@pytest.fixture(scope="session")
def epyc(tmp_path_factory: pytest.TempPathFactory) -> HostModel:
    """The machine of the field report, before anything was done."""
    root = tmp_path_factory.mktemp("epyc") / "root"
    root.mkdir()
    return LabMachine("epyc-8x-rtxpro6000", root).model()


@pytest.fixture
def plan_for() -> Callable[..., Plan]:
    """``plan_for(model, wish, **policies)``: a plan for host ``pve1`` whose VM 100 gets all GPUs."""

    def make(model: HostModel, wish: Mapping[str, Any] | None = None, **policies: Any) -> Plan:
        host = Host.model_validate({"address": "local", "vms": {100: {"gpus": "all"}}, **(wish or {})})
        return make_plan("pve1", model, host, Policies.model_validate(policies), identities={}, version="0.1.0")

    return make


@pytest.fixture
def with_file() -> Callable[..., HostModel]:
    """``with_file(model, path, text)``: another file; ``None`` for no file, Unknown for one that was not read."""

    def make(model: HostModel, path: str, text: Maybe[str | None]) -> HostModel:
        digest = text_digest(text) if isinstance(text, str) else text
        state = FileState(path=path, content=text, sha256=digest, mode=0o644)
        return model.model_copy(update={"files": {**model.files, path: state}})

    return make


@pytest.fixture
def with_vm() -> Callable[..., HostModel]:
    """``with_vm(model, set={...}, delete=[...], **fields)``: the model with another VM 100."""

    def make(
        model: HostModel, set: Mapping[str, str] | None = None, delete: tuple[str, ...] = (), **fields: Any
    ) -> HostModel:
        vms = model.proxmox.vms
        assert isinstance(vms, tuple)
        old = next(vm for vm in vms if vm.vmid == 100)
        config = {k: v for k, v in old.config.items() if k not in delete} | dict(set or {})
        text = "".join(f"{key}: {value}\n" for key, value in config.items())
        new = old.model_copy(update={"config": config, "config_text": text, "hostpci": hostpci_slots(config), **fields})
        others = tuple(vm for vm in vms if vm.vmid != 100)
        proxmox = model.proxmox.model_copy(update={"vms": (new, *others)})
        return model.model_copy(update={"proxmox": proxmox})

    return make
