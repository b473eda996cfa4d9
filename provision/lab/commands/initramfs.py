"""``update-initramfs``: what a kernel image holds of ``/etc/modprobe.d``."""

from __future__ import annotations

from provision.lab import initrd
from provision.lab.commands import boot_loaders
from provision.lab.commands.answer import Answer, fail
from provision.lab.commands.context import Machinery


def update_initramfs(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    """Write each image anew: a snapshot of the module settings, as text."""
    releases = _releases(host, argv)
    if ("-u" not in argv and "-c" not in argv) or not releases:
        return fail("update-initramfs: you must specify at least one of -c, -u, or -d.")
    out = ""
    for release in releases:
        out += f"update-initramfs: Generating /boot/initrd.img-{release}\n"
        host.root.write(initrd.path_of(release), initrd.image(host.root.root), mode=0o644)
        synced = boot_loaders.refresh(host)
        if synced.rc:
            return Answer(1, out + synced.out, synced.err)
        out += synced.out
    return Answer(0, out)


def _releases(host: Machinery, argv: tuple[str, ...]) -> list[str]:
    installed = [name.removeprefix("vmlinuz-") for name in host.root.names("/boot") if name.startswith("vmlinuz-")]
    wanted = argv[argv.index("-k") + 1] if "-k" in argv[:-1] else None
    if wanted == "all":
        return sorted(installed, reverse=True)
    return [release for release in sorted(installed, reverse=True)[:1] if wanted in (None, release)]
