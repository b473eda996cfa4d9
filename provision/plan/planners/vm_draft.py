"""A VM's configuration while a plan works on it: present values, wanted values, reasons."""

from __future__ import annotations

from dataclasses import dataclass, field

from provision.plan.context import Context, Notes, VmTarget
from provision.pve.args import Args, ArgsError


@dataclass
class Draft:
    """Options to set and to delete; an option that already has the wanted value is neither."""

    context: Context
    target: VmTarget
    notes: Notes
    wanted: dict[str, str | None] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)

    @property
    def vmid(self) -> int:
        return self.target.vm.vmid

    @property
    def subject(self) -> str:
        return f"VM {self.vmid}"

    def get(self, key: str) -> str | None:
        """Return an option's value as it will be."""
        return self.wanted[key] if key in self.wanted else self.target.vm.config.get(key)

    def set(self, key: str, value: str | None, reason: str) -> None:
        """Want ``value`` (``None``: unset) for an option, and say why if that is a change."""
        if self.get(key) == value:
            return
        self.wanted[key] = value
        self.reasons.append(reason)

    def keep(self, what: str, reason: str) -> None:
        self.notes.keep(f"{self.subject} {what}", reason)

    def warn(self, text: str) -> None:
        self.notes.warnings.append(f"{self.subject}: {text}")

    @property
    def before(self) -> dict[str, str | None]:
        return {key: self.target.vm.config.get(key) for key in self.changed}

    @property
    def changed(self) -> dict[str, str | None]:
        config = self.target.vm.config
        return {key: value for key, value in self.wanted.items() if config.get(key) != value}

    @property
    def is_q35(self) -> bool:
        return "q35" in (self.get("machine") or "")

    def args(self) -> Args | None:
        """Return the words of ``args``; ``None`` where a quote is not closed (Proxmox ignores all of it)."""
        try:
            return Args.parse(self.get("args") or "")
        except ArgsError as error:
            self.warn(f"args is left alone: {error}")
            return None

    def set_args(self, args: Args, reason: str) -> None:
        text = args.render().strip()
        if text != (self.get("args") or "").strip():
            self.set("args", text or None, reason)
