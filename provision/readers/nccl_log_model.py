"""What NCCL's log says, as frozen values."""

from __future__ import annotations

from provision.evidence import Frozen
from provision.readers.mention import Mention


class Speaker(Frozen):
    """Which process said a line."""

    host: str
    pid: int
    device: str


class Version(Frozen):
    line: int
    version: str
    speaker: Speaker | None


class RankInit(Frozen):
    """One rank of one communicator."""

    line: int
    rank: int
    ranks: int
    device: int
    bdf: str
    job: str | None
    """The communicator's id; None in old versions."""
    host: str | None
    pid: int | None
    completed: int | None
    """Line that says so, None where none does."""


class Setting(Frozen):
    line: int
    name: str
    value: str


class Transport(Frozen):
    """How one rank sends to another; ranks of several jobs in one text are not told apart."""

    line: int
    """Of the first channel."""
    source: int
    target: int
    via: str
    """``P2P/CUMEM``, ``SHM/direct/direct``, ``NET/Socket/0``."""
    channels: int
    host: str | None

    @property
    def pair(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def family(self) -> str:
        """``P2P``, ``SHM``, ``NET``, ``COLLNET``."""
        return self.via.split("/")[0]


class Direct(Frozen):
    """``all_cuda``: the driver grants P2P for every pair.  ``all_direct``: NCCL's limit of distance allows it too."""

    line: int
    all_direct: bool
    all_cuda: bool | None
    """None before 2.28, which does not print it."""


class Choice(Frozen):
    line: int
    collective: str
    bytes: int
    algorithm: str
    protocol: str


class Channels(Frozen):
    line: int
    collective: int
    nvls: int


class NcclLog(Frozen):
    versions: tuple[Version, ...]
    ranks: tuple[RankInit, ...]
    settings: tuple[Setting, ...]
    transports: tuple[Transport, ...]
    direct: tuple[Direct, ...]
    channels: tuple[Channels, ...]
    choices: tuple[Choice, ...]
    warnings: tuple[Mention, ...]
    """``NCCL WARN`` lines."""
    errors: tuple[Mention, ...]
    """What PyTorch and others say of a failed call."""
    notes: tuple[Mention, ...]
    """Lines on P2P that could not be had."""
    topology_files: tuple[Mention, ...]
    graph_lines: int
    """Lines that list rings and trees."""
    connected: tuple[Mention, ...]
    other_lines: int
    """Lines of the log that hold nothing of this."""

    def setting(self, name: str) -> Setting | None:
        return next((setting for setting in self.settings if setting.name == name), None)

    @property
    def loads_topology(self) -> bool:
        """Whether NCCL takes a file's word for what the machine is."""
        return bool(self.topology_files) or self.setting("NCCL_TOPO_FILE") is not None

    def bdf(self, rank: int) -> str | None:
        """Return the address of a rank's GPU where the log tells one."""
        found = {init.bdf for init in self.ranks if init.rank == rank}
        return found.pop() if len(found) == 1 else None

    @property
    def jobs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(init.job for init in self.ranks if init.job))
