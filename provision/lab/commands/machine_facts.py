"""Small commands that only tell: names, versions, volumes."""

from __future__ import annotations

import json

from provision.lab.commands.answer import Answer, fail
from provision.lab.commands.context import Machinery
from provision.lab.install_system import packages
from provision.lab.storage import partitions, volumes


def hostname(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    return Answer(0, f"{host.machine.node}\n")


def identity(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    return Answer(0, "0\n" if "-u" in argv else "uid=0(root) gid=0(root) groups=0(root)\n")


def nproc(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    return Answer(0, f"{host.machine.cpu.count}\n")


def uname(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    release = (host.root.read("/proc/sys/kernel/osrelease") or "").strip()
    facts = {"-s": "Linux", "-n": host.machine.node, "-r": release, "-m": "x86_64", "-v": "#1 SMP PREEMPT_DYNAMIC PMX"}
    if "-a" in argv:
        return Answer(0, f"Linux {host.machine.node} {release} {facts['-v']} x86_64 GNU/Linux\n")
    asked = [facts[flag] for flag in facts if flag in argv] or ["Linux"]
    return Answer(0, " ".join(asked) + "\n")


def getent(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    if argv[1:2] != ("hosts",) or len(argv) < 3:
        return Answer(2)
    address = host.machine.network.address.partition("/")[0]
    if argv[2] != host.machine.node:
        return Answer(2)
    return Answer(0, f"{address:15s} {host.machine.node}.example {host.machine.node}\n")


def pveversion(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    release = (host.root.read("/proc/sys/kernel/osrelease") or "").strip()
    first = f"pve-manager/{host.node.version}/{host.node.repoid} (running kernel: {release})"
    if "-v" not in argv and "--verbose" not in argv:
        return Answer(0, first + "\n")
    ve = f"proxmox-ve: {host.node.version.split('.')[0]}.0.0 (running kernel: {release})"
    manager = f"pve-manager: {host.node.version} (running version: {host.node.version}/{host.node.repoid})"
    installed = packages(host.machine)
    rest = [f"{name}: {installed[name]}" for name in sorted(installed) if name != "pve-manager"]
    return Answer(0, "\n".join([ve, manager, *rest]) + "\n")


def kvm(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    """Only ``--version``: VMs are started by Proxmox."""
    if argv[1:] != ("--version",):
        return fail("kvm: pvectl lab only knows --version", 1)
    package = packages(host.machine).get("pve-qemu-kvm", "")
    release = package.partition("-")[0]
    first = f"QEMU emulator version {release} (pve-qemu-kvm_{package})"
    return Answer(0, f"{first}\nCopyright (c) 2003-2025 Fabrice Bellard and the QEMU Project developers\n")


def pvs(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    found = [
        (f"/dev/{part.name}", part.label)
        for disk in host.machine.disks
        for part in partitions(host.machine, disk)
        if part.fstype == "LVM2_member"
    ]
    found += [
        (f"/dev/{disk.name}", disk.data[4:])
        for disk in host.machine.disks
        if disk.data and disk.data.startswith("lvm:")
    ]
    return _report(argv, "pv", ("pv_name", "vg_name"), found)


def lvs(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    found = [(volume.mapper.partition("-")[2].replace("--", "-"), volume.group) for volume in volumes(host.machine)]
    return _report(argv, "lv", ("lv_name", "vg_name"), [row for row in found if "_t" not in row[0]])


def _report(argv: tuple[str, ...], kind: str, names: tuple[str, str], rows: list[tuple[str, str]]) -> Answer:
    """Two columns as LVM prints them: aligned text, or its JSON report."""
    if "json" in argv:
        listed = [dict(zip(names, row, strict=True)) for row in rows]
        report = {"report": [{kind: listed}], "log": []}
        return Answer(0, json.dumps(report, indent=4) + "\n")
    heading = "" if "--noheadings" in argv else f"  {names[0][:2].upper():<15} {names[1][:2].upper()}\n"
    return Answer(0, heading + "".join(f"  {first:<15} {second}\n" for first, second in rows))


def _pools(host: Machinery) -> dict[str, list[str]]:
    pools: dict[str, list[str]] = {}
    for disk in host.machine.disks:
        for part in partitions(host.machine, disk):
            if part.fstype == "zfs_member":
                pools.setdefault(part.label, []).append(part.name)
    return pools


def zpool(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    pools = _pools(host)
    if argv[1:2] == ("list",):
        if "-H" in argv:
            return Answer(0, "".join(f"{name}\n" for name in pools))
        return Answer(0, "".join(f"{name}\n" for name in pools)) if pools else Answer(0, "", "no pools available\n")
    if argv[1:2] != ("status",):
        return fail(f"unrecognized command '{' '.join(argv[1:2])}'", 2)
    if not pools:
        return Answer(0, "no pools available\n")
    full = any("P" in word for word in argv if word.startswith("-") and not word.startswith("--"))
    return Answer(0, "\n".join(_pool_text(name, members, full=full) for name, members in pools.items()))


def _pool_text(name: str, members: list[str], *, full: bool) -> str:
    prefix = "/dev/" if full else ""
    rows = "".join(f"\t  {prefix}{member}  ONLINE       0     0     0\n" for member in members)
    return (
        f"  pool: {name}\n state: ONLINE\nconfig:\n\n\tNAME        STATE     READ WRITE CKSUM\n"
        f"\t{name}       ONLINE       0     0     0\n{rows}\nerrors: No known data errors\n"
    )


def zfs(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    if argv[1:2] != ("list",):
        return fail(f"unrecognized command '{' '.join(argv[1:2])}'", 2)
    return Answer(0, "".join(f"{name}\n" for name in _pools(host)))
