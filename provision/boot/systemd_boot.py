"""``/etc/kernel/cmdline``: proxmox-boot-tool reads its first line and no other."""

from __future__ import annotations

from dataclasses import dataclass

from provision.boot.cmdline import Cmdline

CMDLINE_FILE = "/etc/kernel/cmdline"


@dataclass(frozen=True)
class KernelCmdlineFile:
    """The first line as a command line, and whatever stands after it (ignored by the tool, kept by us)."""

    cmdline: Cmdline
    rest: str

    @classmethod
    def parse(cls, text: str) -> KernelCmdlineFile:
        end = text.find("\n")
        first, rest = (text, "") if end < 0 else (text[:end], text[end:])
        return cls(Cmdline.parse(first), rest)

    def render(self) -> str:
        return self.cmdline.render() + self.rest

    def with_cmdline(self, cmdline: Cmdline) -> KernelCmdlineFile:
        return KernelCmdlineFile(cmdline, self.rest)

    @property
    def has_root(self) -> bool:
        """Without ``root=`` ``proxmox-boot-tool refresh`` refuses to write any entry."""
        return bool(self.cmdline.all("root"))

    @property
    def ignored(self) -> tuple[tuple[int, str], ...]:
        """Line number and word of every parameter behind the first line; comments are left out."""
        return tuple(
            (number, token.raw)
            for number, line in enumerate(self.rest.split("\n")[1:], start=2)
            if not line.lstrip().startswith("#")
            for token in Cmdline.parse(line).tokens
        )
