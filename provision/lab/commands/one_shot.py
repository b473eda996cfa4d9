"""What sets the entry of the next boot: ``grub-reboot``, ``grub-editenv``, ``bootctl``; and ``mount`` for ESPs."""

from __future__ import annotations

from provision.lab import esp, grub_env
from provision.lab.commands.answer import Answer, fail
from provision.lab.commands.context import Machinery


def grub_reboot(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    if len(argv) != 2:
        return fail("More than one menu entry?" if len(argv) > 2 else "Menu entry not specified.")
    grub_env.write(host.root.root, {**grub_env.read(host.root.root), "next_entry": argv[1]})
    return Answer()


def grub_editenv(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    if argv[1:2] not in (("-",), (f"/{grub_env.GRUBENV}",)) or len(argv) < 3:
        return fail("Unknown extra argument or no command.")
    variables, verb, words = grub_env.read(host.root.root), argv[2], argv[3:]
    if verb == "list":
        if not host.root.exists(f"/{grub_env.GRUBENV}"):
            return fail(f"grub-editenv: error: cannot open `/{grub_env.GRUBENV}': No such file or directory.")
        return Answer(0, "".join(f"{name}={value}\n" for name, value in variables.items()))
    if verb == "set":
        variables.update(word.partition("=")[::2] for word in words)
    elif verb == "unset":
        variables = {name: value for name, value in variables.items() if name not in words}
    elif verb != "create":
        return fail(f"Unknown command `{verb}'.")
    grub_env.write(host.root.root, {} if verb == "create" else variables)
    return Answer()


def bootctl(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    if argv[1:2] == ("--version",):
        return Answer(0, "systemd 257 (257.8-1~deb13u2)\n")
    if argv[1:2] != ("set-oneshot",) or len(argv) != 3:
        return fail(f"Unknown command verb '{argv[1] if len(argv) > 1 else ''}'.")
    if not host.root.exists("/sys/firmware/efi"):
        return fail("Not booted with UEFI.")
    if host.machine.boot.loader != "systemd-boot":
        return fail("Not booted with a supported boot loader.")
    esp.set_variable(host.root.root, esp.ONE_SHOT, argv[2])
    return Answer()


def mount(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    """Mount an ESP by its UUID; nothing else can be mounted in the lab."""
    if len(argv) != 5 or argv[1:3] != ("-t", "vfat"):
        return fail("mount: bad usage")
    device, target = argv[3:]
    uuid = device.rpartition("/")[2]
    if not host.root.at(target).is_dir():
        return fail(f"mount: {target}: mount point does not exist.", 32)
    if uuid not in esp.uuids(host.root.root) or not esp.mount(host.root.root, uuid, host.root.at(target)):
        return fail(f"mount: {target}: special device {device} does not exist.", 32)
    return Answer()


def umount(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    if len(argv) != 2 or not esp.unmount(host.root.root, host.root.at(argv[1])):
        return fail(f"umount: {argv[-1]}: not mounted.", 32)
    return Answer()
