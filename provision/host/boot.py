"""What the capture says about boot loader, firmware and Secure Boot."""

from __future__ import annotations

from provision.boot.grub_cfg import CUSTOM_FILE
from provision.boot.loader import UUIDS_FILE, LoaderFacts, decide_loader
from provision.boot.model import MountedFrom
from provision.boot.once import SELECTED, is_from_custom, is_selected
from provision.evidence import Maybe, Unknown
from provision.host.facts import Facts
from provision.host.model import BootLoader

SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-*"
"""EFI global variable: four bytes of attributes, then 1 where Secure Boot is in force."""


def read_boot(facts: Facts) -> BootLoader:
    is_efi = _is_efi(facts)
    loader = decide_loader(
        LoaderFacts(
            boot_uuids=facts.text(UUIDS_FILE),
            tool_status=_tool_status(facts),
            running_cmdline=facts.text("/proc/cmdline"),
            firmware_is_efi=is_efi,
            secure_boot=_secure_boot(facts, is_efi),
            efibootmgr=facts.command("efibootmgr -v"),
            root_type=_root_type(facts),
        )
    )
    version = facts.command("bootctl --version")
    return loader.model_copy(
        update={
            "grub_home": _grub_home(facts),
            "has_bootctl": version if isinstance(version, Unknown) else version is not None,
            "from_once": _from_once(facts),
        }
    )


def _grub_home(facts: Facts) -> Maybe[MountedFrom]:
    """What /boot/grub lies on: the nearest mount above it, the last where one covers another."""
    text = facts.text("/proc/mounts")
    if not isinstance(text, str):
        return text or Unknown(unknown="/proc/mounts is not there")
    rows = [words for line in text.splitlines() if len(words := line.split(" ")) > 2]
    above = [words for words in rows if words[1] in ("/", "/boot", "/boot/grub")]
    if not above:
        return Unknown(unknown="nothing is mounted at /")
    nearest = max(len(words[1]) for words in above)
    source, _, fstype = [words for words in above if len(words[1]) == nearest][-1][:3]
    return MountedFrom(source=source, fstype=fstype)


def _from_once(facts: Facts) -> Maybe[bool]:
    """Whether this boot came from a one-shot entry of pvectl."""
    paths = facts.all(SELECTED)
    data = facts.data(paths[0]) if not isinstance(paths, Unknown) and paths else None
    if isinstance(data, bytes):
        return is_selected(data)
    custom, running = facts.text(CUSTOM_FILE), facts.text("/proc/cmdline")
    return is_from_custom(custom, running) if isinstance(custom, str) and isinstance(running, str) else False


def _tool_status(facts: Facts) -> Maybe[str | None]:
    """The tool fails where it keeps no ESP; what it printed is the answer all the same."""
    text = facts.capture.text("proxmox-boot-tool status", "command", facts.subject)
    if not isinstance(text, str):
        return text
    item = facts.capture.item("proxmox-boot-tool status", "command", facts.subject)
    errors = item.stderr if item is not None else ""
    return text + errors if text else None


def _root_type(facts: Facts) -> Maybe[str | None]:
    """Type of what is mounted at ``/`` last: an initramfs may lie below it."""
    text = facts.text("/proc/mounts")
    if not isinstance(text, str):
        return text
    types = [words[2] for line in text.splitlines() if len(words := line.split(" ")) > 2 and words[1] == "/"]
    return types[-1] if types else None


def _is_efi(facts: Facts) -> Maybe[bool]:
    names = facts.names("/sys/firmware")
    return names if isinstance(names, Unknown) else "efi" in (names or ())


def _secure_boot(facts: Facts, is_efi: Maybe[bool]) -> Maybe[bool]:
    if isinstance(is_efi, Unknown) or not is_efi:
        return is_efi
    paths = facts.all(SECURE_BOOT)
    if isinstance(paths, Unknown) or not paths:
        return paths if isinstance(paths, Unknown) else False
    data = facts.data(paths[0])
    if data is None or isinstance(data, Unknown):
        return False if data is None else data
    return data[4] == 1 if len(data) == 5 else Unknown(unknown=f"SecureBoot holds {len(data)} bytes instead of 5")
