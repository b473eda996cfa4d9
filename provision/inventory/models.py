"""The inventory: what the user wishes for.  Validated values, no I/O.

Every class forbids unknown keys; the loader turns pydantic's errors into lines with file,
line and path.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from provision.evidence import Frozen
from provision.pci.address import Bdf


def _bdf(value: Any) -> Any:
    return str(Bdf.parse(value)) if isinstance(value, str) else value


BdfText = Annotated[str, BeforeValidator(_bdf)]
"""A PCI address; normalised to ``0000:41:00.0``."""


def _anchored(value: str, info: ValidationInfo) -> str:
    """Take a relative path from the inventory's own folder, where the loader names it."""
    path = Path(value).expanduser()
    folder = (info.context or {}).get("folder")
    return str(folder / path) if folder is not None else str(path)


PathText = Annotated[str, Field(min_length=1), AfterValidator(_anchored)]
"""A path on the machine that runs pvectl; relative ones are taken from the inventory's folder, ``~`` is home."""


def _vmid(value: Any) -> Any:
    if not re.fullmatch(r"[1-9][0-9]{2,8}", str(value)):
        raise ValueError("this is not a VM id: Proxmox takes 100 to 999999999")
    return value


VmId = Annotated[int, BeforeValidator(_vmid)]

MappingId = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]+$")]


class SecretRef(Frozen):
    """A reference to a secret: exactly one of an environment variable or a file."""

    env: str | None = None
    file: PathText | None = None

    @model_validator(mode="before")
    @classmethod
    def _no_literal(cls, value: Any) -> Any:
        if not isinstance(value, (dict, SecretRef)):
            raise ValueError(  # noqa: TRY004 (pydantic collects ValueError)
                "a secret must not stand in the inventory: write {env: VARIABLE} or {file: PATH}"
            )
        return value

    @model_validator(mode="after")
    def _one(self) -> SecretRef:
        if (self.env is None) == (self.file is None):
            raise ValueError("give exactly one of env and file")
        return self

    @field_validator("env")
    @classmethod
    def _is_name(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
            raise ValueError("this is not the name of a variable; a secret must not stand in the inventory")
        return value


class SshOptions(Frozen):
    identity_file: PathText | None = None
    known_hosts: PathText | None = None
    config: PathText | None = None
    jump: str | None = None
    connect_timeout: float = Field(default=10.0, gt=0, le=300)


class Api(Frozen):
    """Access to the Proxmox API: token, ticket (password) or none (``pvesh`` over the shell)."""

    auth: Literal["token", "ticket", "none"] = "none"
    url: str | None = None
    """``https://address:8006`` where none is given."""
    user: str | None = None
    """``root@pam`` for a ticket, ``user@realm`` of a token."""
    token_name: str | None = None
    secret: SecretRef | None = None
    ca_file: PathText | None = None
    fingerprint: str | None = None
    """SHA-256 of the API's certificate, ``AA:BB:...``."""

    @field_validator("url")
    @classmethod
    def _url(cls, value: str | None) -> str | None:
        if value is not None and "@" in value:
            raise ValueError("credentials must not stand in the address: use user, token_name and secret")
        if value is not None and not re.fullmatch(r"https://[^/\s]+/?", value):
            raise ValueError("write https://address:port")
        return value

    @model_validator(mode="after")
    def _complete(self) -> Api:
        if self.auth == "token" and not (self.user and self.token_name and self.secret):
            raise ValueError("auth: token needs user, token_name and secret")
        if self.auth == "ticket" and not (self.user and self.secret):
            raise ValueError("auth: ticket needs user and secret")
        return self


def _selector_schema(schema: dict[str, Any]) -> None:
    """Tell editors of the short forms ``all`` and a list of addresses too."""
    full = dict(schema)
    schema.clear()
    addresses = {"type": "array", "items": {"type": "string"}}
    schema["anyOf"] = [{"const": "all"}, addresses, full]


_ONE_OR_MANY = WithJsonSchema(
    {"anyOf": [{"type": ["string", "integer"]}, {"type": "array", "items": {"type": ["string", "integer"]}}]}
)


class GpuSelector(Frozen):
    """Which GPUs.  All given conditions must hold; ``count`` takes the first in BDF order.

    The word ``all`` alone means every NVIDIA GPU of the host.
    """

    model_config = ConfigDict(json_schema_extra=_selector_schema)

    model: str | None = None
    """``vvvv:dddd`` or a part of the model's name, case-insensitive."""
    bdf: Annotated[tuple[BdfText, ...], _ONE_OR_MANY] = ()
    slot: Annotated[tuple[str, ...], _ONE_OR_MANY] = ()
    """Physical slot names of /sys/bus/pci/slots."""
    numa: int | None = Field(default=None, ge=0)
    count: int | None = Field(default=None, ge=1)
    all_but: GpuSelector | None = Field(default=None, alias="all but")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        if value == "all":
            return {}
        if isinstance(value, str):
            raise ValueError(  # noqa: TRY004 (pydantic collects ValueError)
                "write all, a list of PCI addresses, or a mapping of model, bdf, slot, numa, count, all but"
            )
        if isinstance(value, (list, tuple)):
            return {"bdf": value}
        return value

    @field_validator("bdf", "slot", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        many = value if isinstance(value, (list, tuple)) else (value,)
        # Firmware numbers physical slots: 3 is a name here.
        return tuple(str(one) if isinstance(one, int) and not isinstance(one, bool) else one for one in many)


GpuSelector.model_rebuild()


class GuestAccess(Frozen):
    """How to reach a guest over SSH for the proof."""

    address: str
    user: str = "root"
    port: int = Field(default=22, ge=1, le=65535)
    identity_file: PathText | None = None
    known_hosts: PathText | None = None
    config: PathText | None = None
    jump: str | None = None


class MappingWish(Frozen):
    """A mapping the user names himself; without any, names are ``<prefix>`` or ``<prefix>-<n>``."""

    gpus: GpuSelector = GpuSelector()
    style: Literal["per-gpu", "pool"] = "per-gpu"


def _size(value: Any) -> Any:
    """Return ``200G`` or ``1T`` in GiB; a number as it is."""
    found = re.fullmatch(r"(\d+)\s*([GT])(?:i?B)?", value) if isinstance(value, str) else None
    return int(found[1]) * (1024 if found[2] == "T" else 1) if found else value


def _memory(value: Any) -> Any:
    """Return ``512G`` in MiB; a number as it is."""
    gib = _size(value)
    return gib * 1024 if isinstance(value, str) and isinstance(gib, int) else value


Gib = Annotated[int, BeforeValidator(_size), WithJsonSchema({"type": ["string", "integer"]})]
Mib = Annotated[int, BeforeValidator(_memory), WithJsonSchema({"type": ["string", "integer"]})]

PUBLIC_KEY = re.compile(r"(?:ssh-\S+|ecdsa-\S+|sk-\S+) [A-Za-z0-9+/=]+(?: .*)?")


class DiskWish(Frozen):
    """The disk of a new VM: a copy of an image, or an empty one."""

    image: Annotated[str | None, Field(alias="import", pattern=r"^(/[^,\s]+|[A-Za-z][\w.-]*:[^,\s]+)$")] = None
    """Path on the host or volume id (``local:import/ubuntu.qcow2``) of the image to copy; a path needs root@pam."""
    size: Annotated[Gib | None, Field(ge=1)] = None
    """GiB, or ``200G``; an image grows to it."""

    @model_validator(mode="after")
    def _something(self) -> DiskWish:
        if self.image is None and self.size is None:
            raise ValueError("give import, size or both")
        return self


class CloudInit(Frozen):
    """What cloud-init sets up in a new VM.  Sign-in is by key: a password would stand in the VM's configuration."""

    user: Annotated[str | None, Field(pattern=r"^[a-z_][a-z0-9_-]*$")] = None
    ssh_keys: tuple[str, ...] = ()
    """Public keys, one line each."""
    ssh_keys_file: PathText | None = None
    """File with public keys, ``~/.ssh/id_ed25519.pub``."""
    ip: str = Field(default="dhcp", pattern=r"^(dhcp|[0-9.]+/\d+)$")
    gateway: Annotated[str | None, Field(pattern=r"^[0-9.]+$")] = None
    nameserver: Annotated[str | None, Field(pattern=r"^[0-9a-fA-F.: ]+$")] = None
    searchdomain: Annotated[str | None, Field(pattern=r"^[\w.-]+$")] = None

    @model_validator(mode="before")
    @classmethod
    def _no_password(cls, value: Any) -> Any:
        if isinstance(value, dict) and "password" in value:
            raise ValueError("a password is not taken: it would stand in the VM's configuration; use ssh_keys_file")
        return value

    @field_validator("ssh_keys")
    @classmethod
    def _public(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any(PUBLIC_KEY.fullmatch(key.strip()) is None for key in value):
            raise ValueError("write public keys, as they stand in an .pub file")
        return value


class NetworkWish(Frozen):
    bridge: str = Field(default="vmbr0", pattern=r"^[A-Za-z][\w.-]*$")
    model: Literal["virtio", "e1000", "vmxnet3"] = "virtio"
    vlan: int | None = Field(default=None, ge=1, le=4094)


class VmCreateWish(Frozen):
    """A VM that is made where it does not exist; of one that is there nothing of this is changed."""

    name: str = Field(pattern=r"^[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9-]+)*$")
    memory: Annotated[Mib, Field(ge=16)]
    """MiB, or ``512G``."""
    cores: int = Field(ge=1)
    """For each socket."""
    sockets: int = Field(default=1, ge=1, le=4)
    storage: str = Field(pattern=r"^[A-Za-z][\w.-]*$")
    """Storage of its disk and its EFI variables."""
    disk: DiskWish
    cloud_init: CloudInit | None = None
    network: NetworkWish = NetworkWish()
    ostype: Literal["l26", "win11", "win10"] = "l26"


class VmWish(Frozen):
    gpus: GpuSelector = GpuSelector()
    mapping: Literal["auto", "per-gpu", "pool"] = "auto"
    """``per-gpu``: one mapping for each GPU.  ``pool``: one mapping with all.  ``auto``: keep what the VM
    uses and split it where the VM must know which GPU is in which slot."""
    mapping_prefix: MappingId = "gpu"
    convert: bool = False
    """Allow a change of firmware (to OVMF) or machine type (to q35) of the existing VM."""
    companions: Literal["with-gpu", "host"] = "with-gpu"
    """What happens to the audio and USB functions of a GPU."""
    guest: GuestAccess | None = None
    start: bool = True
    """Start the VM after an apply that changed it."""
    create: VmCreateWish | None = None
    """Make the VM where there is none with this id."""


def _minutes(value: Any) -> Any:
    """Return ``15m`` or ``2h`` in minutes; anything else as it is."""
    found = re.fullmatch(r"(\d+)\s*(m|min|h)", value) if isinstance(value, str) else None
    return int(found[1]) * (60 if found[2] == "h" else 1) if found else value


class BootPolicy(Frozen):
    tidy: Literal["with-changes", "never", "always"] = "with-changes"
    """When harmless no-ops on the kernel command line are removed."""
    confirm_within: Annotated[int, BeforeValidator(_minutes)] = Field(default=15, ge=2, le=1440)
    """Minutes after a boot of a changed set-up in which it must be confirmed, ``15m`` or ``1h``; otherwise the host
    goes back to the previous set-up by itself."""
    one_shot: Literal["auto", "never"] = "auto"
    """``auto``: where the boot loader can undo by itself, the new command line stands in an entry that it takes once,
    and becomes the default when the boot is confirmed.  ``never``: it is the default at once."""


class NetworkPolicy(Frozen):
    pin: Literal["auto", "always", "never"] = "auto"
    """Names of network interfaces by their hardware address.  ``auto``: before a boot that can number the buses
    anew (a ``pci=`` parameter comes or goes).  ``always``: in any case."""


class Policies(Frozen):
    iommu: Literal["keep", "pt", "translated"] = "keep"
    """Domain of host-owned devices: ``pt`` adds iommu=pt, ``translated`` removes it."""
    acs: Literal["keep", "no-override"] = "keep"
    """``no-override`` removes pcie_acs_override, which asserts an isolation that is not there."""
    binding: Literal["per-device", "model", "none"] = "per-device"
    """``per-device``: vfio-pci by driver_override at boot.  ``model``: by vfio-pci's ids=, which takes every card of a
    model, and so only where all of them go to guests.  ``none``: leave it to Proxmox at VM start."""
    boot: BootPolicy = BootPolicy()
    network: NetworkPolicy = NetworkPolicy()
    console: Literal["keep", "serial", "bmc", "headless"] = "keep"
    """Accept the loss of the host's only display when there is another way in."""
    guests: Literal["ask", "stop"] = "ask"
    """``stop``: running guests that a change touches may be shut down without --stop-guests."""
    p2p: Literal["off", "prove"] = "off"
    numa: Literal["keep", "pin"] = "keep"
    hugepages: Literal["keep", "1G"] = "keep"
    reboot: Literal["ask", "never"] = "ask"
    """``never``: refuse --reboot on this host."""
    onboot: Literal["keep", "on", "off"] = "keep"
    mapping_unit: Literal["off", "repair"] = "off"
    """``repair``: a unit on the host repairs mapping entries at boot, before any guest, where that is certain."""
    raw_devices: Literal["log", "hold"] = "log"
    """What that unit does about a VM whose raw ``host=`` address now holds another device than the recorded one:
    log it, or also hold the VM back by a lock."""


class Host(Frozen):
    address: str
    """``[user@]host[:port]`` or ``local``."""
    ssh: SshOptions = SshOptions()
    api: Api = Api()
    mappings: dict[MappingId, MappingWish] = {}
    vms: dict[VmId, VmWish] = {}
    policies: Policies | None = None
    """Replaces the inventory's ``policies`` for this host, as a whole."""

    @field_validator("address")
    @classmethod
    def _address(cls, value: str) -> str:
        if not value or re.search(r"\s", value):
            raise ValueError("write [user@]host[:port] or local")
        if ":" in value.rpartition("@")[0]:
            raise ValueError("a password must not stand in the inventory: SSH signs in with a key")
        return value


def _inventory_schema(schema: dict[str, Any]) -> None:
    """The loader takes ``schema`` and keys that begin with ``x-`` (a place for anchors) away before the check."""
    schema["properties"]["schema"] = {"type": "string", "pattern": "^pvectl\\.inventory/[0-9]+$"}
    schema["patternProperties"] = {"^x-": {}}


class Inventory(Frozen):
    model_config = ConfigDict(json_schema_extra=_inventory_schema)

    hosts: dict[str, Host] = Field(min_length=1)
    policies: Policies = Policies()

    def policies_for(self, host: str) -> Policies:
        return self.hosts[host].policies or self.policies
