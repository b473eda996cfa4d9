"""Whether the boot loader can undo a new command line by itself, and the entry that lets it.

A separate entry carries the new command line once; the default keeps the old one until the boot is confirmed.  Only
where the loader surely forgets the entry before it boots: otherwise a set-up that does not come up would be tried
for ever, and the dead-man alone is the safer way.
"""

from __future__ import annotations

import re
from dataclasses import replace

from provision.boot.cmdline import Cmdline
from provision.boot.grub import GENERATED_FILE
from provision.boot.grub_cfg import (
    CUSTOM_FILE,
    ENVIRONMENT_FILE,
    KernelEntry,
    kernel_entry,
    next_entry,
    reads_custom,
    takes_next_entry,
)
from provision.boot.once import ENTRY
from provision.evidence import Maybe, Unknown
from provision.host.model import HostModel
from provision.inventory.models import Policies
from provision.plan.boot_change import BootEdit
from provision.plan.boot_source import readable
from provision.plan.model import BootOnce
from provision.plan.render import Render

WRITABLE = ("ext2", "ext3", "ext4", "xfs", "vfat")
"""File systems in which GRUB writes its environment block in place."""
_PARTITION = re.compile(r"/dev/((sd|hd|vd|xvd)[a-z]+\d+|(nvme\d+n\d+|mmcblk\d+)p\d+)")
_PLAIN = re.compile(r"[\w.,:;=/+@%~^-]+")


def with_one_shot(model: HostModel, policies: Policies, edit: BootEdit, render: Render) -> BootEdit:
    """Return the edit with its one-shot entry, or with the reason why there is none."""
    if not edit.is_wanted or edit.problem is not None:
        return edit
    once = _once(model, policies, edit, render)
    return replace(edit, no_once=once) if isinstance(once, str) else replace(edit, once=once)


def _once(model: HostModel, policies: Policies, edit: BootEdit, render: Render) -> BootOnce | str:
    """Return the entry, or why there is none."""
    if policies.boot.one_shot == "never":
        return "policies.boot.one_shot is never"
    if not edit.files:
        return "the files that the default is made from hold the new command line already"
    if isinstance(edit.configured, Unknown) or isinstance(edit.before, Unknown):
        return "the command line that the files give is not known"
    if model.boot.is_mixed:
        return "the ESPs are set up for different boot loaders, and only one of them would know the entry"
    if model.boot.kind == "grub":
        return _grub(model, edit.before, edit.configured, render)
    if model.boot.kind == "systemd-boot":
        return _systemd_boot(model, edit.configured, render)
    return (
        "GRUB reads its environment from ESPs that proxmox-boot-tool keeps, one for each disk, and the firmware "
        "chooses among them"
    )


def _grub(model: HostModel, before: str, after: str, render: Render) -> BootOnce | str:
    place = grub_cannot_write(model)
    if place:
        return place
    text = readable(model.files.get(GENERATED_FILE), GENERATED_FILE)
    problem = _unfit(model, text)
    if problem or not isinstance(text, str):
        return problem
    entry = kernel_entry(text, str(model.kernel.release))
    if isinstance(entry, Unknown):
        return entry.unknown
    options = _options(entry, before, after)
    if options is None:
        return f"{GENERATED_FILE} is not what the files give now: an edit by someone else waits in them"
    if not all(_PLAIN.fullmatch(word) for word in options.split()):
        return "a parameter has characters that GRUB's own language would change"
    values = {"entry": ENTRY, "release": model.kernel.release, "lines": entry.with_options(options)}
    return BootOnce(loader="grub", content=render("host/grub-once.cfg.j2", values), cmdline=options)


def grub_cannot_write(model: HostModel) -> str:
    """Return why GRUB cannot write its environment block, empty where it can."""
    home = model.boot.grub_home
    if isinstance(home, Unknown):
        return f"what /boot/grub lies on is {home}"
    if _PARTITION.fullmatch(home.source) is None or home.fstype not in WRITABLE:
        return (
            f"/boot/grub lies on {home.source} ({home.fstype}), where GRUB cannot write: it would take the entry at "
            "every boot"
        )
    return ""


def _unfit(model: HostModel, generated: Maybe[str | None]) -> str:
    """Return why GRUB's own files do not allow it, empty where they do."""
    custom = readable(model.files.get(CUSTOM_FILE), CUSTOM_FILE)
    environment = readable(model.files.get(ENVIRONMENT_FILE), ENVIRONMENT_FILE)
    for text in (generated, custom, environment):
        if isinstance(text, Unknown):
            return text.unknown
    if not isinstance(generated, str):
        return f"{GENERATED_FILE} does not exist"
    if custom is not None:
        return f"{CUSTOM_FILE} exists, and it is yours"
    if not takes_next_entry(generated) or not reads_custom(generated):
        return f"{GENERATED_FILE} does not look at next_entry, or not at {CUSTOM_FILE}"
    if not isinstance(environment, str):
        return f"{ENVIRONMENT_FILE} does not exist, which GRUB writes in place and never makes"
    waits = next_entry(environment)
    return f"{ENVIRONMENT_FILE} asks for {waits} at the next boot already" if waits else ""


def _options(entry: KernelEntry, before: str, after: str) -> str | None:
    """Return the entry's new options: what the generator adds in front stays, the rest is what the files give."""
    old = [token.raw for token in Cmdline.parse(before).tokens]
    words = [token.raw for token in Cmdline.parse(entry.options).tokens]
    if words[len(words) - len(old) :] != old:
        return None
    new = [token.raw for token in Cmdline.parse(after).tokens]
    return " ".join([*words[: len(words) - len(old)], *new])


def _systemd_boot(model: HostModel, after: str, render: Render) -> BootOnce | str:
    esps = model.boot.esps
    if isinstance(esps, Unknown):
        return f"which ESPs there are is {esps}"
    if any(esp.skipped for esp in esps) or not esps:
        return "proxmox-boot-tool does not reach every ESP"
    if model.boot.has_bootctl is not True:
        return "bootctl, which sets the entry of the next boot, is not there (package systemd-boot-tools)"
    release = model.kernel.release
    if isinstance(release, Unknown):
        return f"the running kernel is {release}"
    options = after.strip()
    text = render("host/systemd-boot-once.conf.j2", {"release": release, "options": options})
    return BootOnce(loader="systemd-boot", content=text, cmdline=options, esps=tuple(esp.uuid for esp in esps))
