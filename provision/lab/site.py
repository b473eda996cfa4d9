"""The folder of one lab: keys, certificate, addresses, inventories; see :class:`Site`."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from provision.lab.certificate import make_certificate
from provision.lab.machine import Machine
from provision.lab.ssh_server import make_key

TOKEN = "pvectl"  # noqa: S105 - a token's name


@dataclass(frozen=True)
class Addresses:
    """Ports on 127.0.0.1."""

    ssh: int
    api: int
    guests: dict[int, int]


class Site:
    """Paths below a lab's folder, and the files that do not change while it runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.door = folder / "door"
        self.control = folder / "control"
        self.state = folder / "lab.json"
        self.inventory = folder / "inventory.yaml"
        self.inventory_on_host = folder / "inventory-on-host.yaml"
        self.client_key = folder / "ssh" / "client_key"
        self.host_key = folder / "ssh" / "host_key"
        self.authorized = folder / "ssh" / "authorized_keys"
        self.known_hosts = folder / "ssh" / "known_hosts"
        self.ssh_config = folder / "ssh" / "config"
        self.token = folder / "api" / "token"
        self.password = folder / "api" / "password"
        self.api = folder / "api"

    def guest_root(self, vmid: int) -> Path:
        return self.folder / "guests" / str(vmid) / "root"

    def guest_key(self, vmid: int) -> Path:
        return self.folder / "ssh" / f"guest-{vmid}_key"

    def make_secrets(self, machine: Machine) -> tuple[str, str]:
        """Write keys, token, password and certificate; return the certificate's PEM and fingerprint."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        self.authorized.parent.mkdir(exist_ok=True)
        self.authorized.write_text(make_key(self.client_key) + "\n", encoding="ascii")
        make_key(self.host_key)
        for vmid in machine.guests:
            make_key(self.guest_key(vmid))
        made = make_certificate(self.api, machine.node)
        _write_secret(self.token, secrets.token_hex(16))
        _write_secret(self.password, secrets.token_urlsafe(18))
        return made

    def read_secret(self, path: Path) -> str:
        return path.read_text(encoding="ascii").strip()

    def write_addresses(self, machine: Machine, addresses: Addresses) -> None:
        """Write what clients need: known hosts, an ssh_config, both inventories."""
        keys = {addresses.ssh: self.host_key} | {
            addresses.guests[vmid]: self.guest_key(vmid) for vmid in addresses.guests
        }
        lines = [f"[127.0.0.1]:{port} {_public(key)}\n" for port, key in keys.items()]
        self.known_hosts.write_text("".join(lines), encoding="ascii")
        self.ssh_config.write_text(self._ssh_config(machine, addresses), encoding="utf-8")
        self.inventory.write_text(self._inventory(machine, addresses, on_host=False), encoding="utf-8")
        self.inventory_on_host.write_text(self._inventory(machine, addresses, on_host=True), encoding="utf-8")

    def _ssh_config(self, machine: Machine, addresses: Addresses) -> str:
        names = {machine.node: addresses.ssh}
        names |= {machine.guests[vmid].hostname: port for vmid, port in addresses.guests.items()}
        return "".join(
            f"Host {name}\n  HostName 127.0.0.1\n  Port {port}\n  User root\n  IdentityFile {self.client_key}\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {self.known_hosts}\n\n"
            for name, port in names.items()
        )

    def _inventory(self, machine: Machine, addresses: Addresses, *, on_host: bool) -> str:
        host: dict[str, Any] = {"address": "local" if on_host else f"root@127.0.0.1:{addresses.ssh}"}
        if not on_host:
            host["ssh"] = {"identity_file": str(self.client_key), "known_hosts": str(self.known_hosts)}
            host["api"] = {
                "auth": "token",
                "url": f"https://127.0.0.1:{addresses.api}",
                "user": "root@pam",
                "token_name": TOKEN,
                "secret": {"file": str(self.token)},
            }
        host["vms"] = {vmid: self._vm(vmid, addresses) for vmid in sorted(machine.vms)[:1]}
        document = {"hosts": {machine.node: host}, "policies": {"iommu": "pt"}}
        return f"# Written by pvectl lab for {machine.name}; it lives as long as the lab runs.\n" + _yaml(document)

    def _vm(self, vmid: int, addresses: Addresses) -> dict[str, Any]:
        wish: dict[str, Any] = {"gpus": "all"}
        if vmid in addresses.guests:
            wish["guest"] = {
                "address": "127.0.0.1",
                "port": addresses.guests[vmid],
                "user": "root",
                "identity_file": str(self.client_key),
                "known_hosts": str(self.known_hosts),
            }
        return wish

    def write_state(self, values: dict[str, Any]) -> None:
        new = self.state.with_suffix(".new")
        new.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
        new.replace(self.state)


def _public(key: Path) -> str:
    text = asyncssh.read_private_key(str(key)).export_public_key().decode("ascii")
    return " ".join(text.split()[:2])


def _write_secret(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(text + "\n", encoding="ascii")


def _yaml(value: Any, indent: int = 0) -> str:
    """Write nested mappings of plain values; texts are quoted as JSON, which is YAML."""
    pad = "  " * indent
    text = ""
    for key, item in value.items():
        if isinstance(item, dict):
            text += f"{pad}{key}:\n{_yaml(item, indent + 1)}" if item else f"{pad}{key}: {{}}\n"
        elif isinstance(item, str) and not item.replace("-", "").isalnum():
            text += f"{pad}{key}: {json.dumps(item)}\n"
        else:
            text += f"{pad}{key}: {item}\n"
    return text
