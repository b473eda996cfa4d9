"""``systemctl``, ``reboot`` and ``udevadm``."""

from __future__ import annotations

from provision.lab.commands.answer import Answer, fail
from provision.lab.commands.context import Machinery

UNIT_FOLDERS = ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
ACTIVE = "/run/pvectl-lab/units"
ALWAYS_ACTIVE = frozenset({"ssh", "sshd", "pveproxy", "pvedaemon", "pve-cluster", "pvestatd", "cron", "systemd-udevd"})


def reboot(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    host.request_reboot()
    return Answer()


def systemctl(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    words = [word for word in argv[1:] if not word.startswith("-")]
    flags = [word for word in argv[1:] if word.startswith("-")]
    verb, names = (words[0] if words else ""), [_full(name) for name in words[1:]]
    if verb in ("reboot", "poweroff"):
        host.request_reboot()
        return Answer()
    if verb == "daemon-reload":
        return Answer()
    if verb == "is-system-running":
        return Answer(0, "running\n")
    act = {
        "is-active": _is_active,
        "is-enabled": _is_enabled,
        "enable": _enable,
        "disable": _disable,
        "start": _start,
        "restart": _start,
        "stop": _stop,
        "reset-failed": _stop,
        "show": _show,
        "status": _show,
    }.get(verb)
    if act is None:
        return fail(f"Unknown command verb '{verb}'.")
    answers = [act(host, name) for name in names]
    if "--now" in flags and verb in ("enable", "disable"):
        answers += [(_start if verb == "enable" else _stop)(host, name) for name in names]
    rc = next((answer.rc for answer in answers if answer.rc), 0)
    if "-q" in flags or "--quiet" in flags:
        return Answer(rc)
    return Answer(rc, "".join(answer.out for answer in answers), "".join(answer.err for answer in answers))


def _full(name: str) -> str:
    return name if "." in name else f"{name}.service"


def unit_text(host: Machinery, name: str) -> str | None:
    """Return the text of a unit's file, ``None`` where there is no such unit."""
    for folder in UNIT_FOLDERS:
        text = host.root.read(f"{folder}/{name}")
        if text is not None:
            return text
    return None


def _known(host: Machinery, name: str) -> bool:
    return unit_text(host, name) is not None or name.partition(".")[0] in ALWAYS_ACTIVE


def is_active(host: Machinery, name: str) -> bool:
    return name.partition(".")[0] in ALWAYS_ACTIVE or host.root.exists(f"{ACTIVE}/{name}")


def _is_active(host: Machinery, name: str) -> Answer:
    return Answer(0, "active\n") if is_active(host, name) else Answer(3 if _known(host, name) else 4, "inactive\n")


def _is_enabled(host: Machinery, name: str) -> Answer:
    if not _known(host, name):
        return Answer(4, "not-found\n")
    enabled = name.partition(".")[0] in ALWAYS_ACTIVE or bool(_wants(host, name))
    return Answer(0, "enabled\n") if enabled else Answer(1, "disabled\n")


def _wants(host: Machinery, name: str) -> list[str]:
    folders = [folder for folder in host.root.names(UNIT_FOLDERS[0]) if folder.endswith((".wants", ".requires"))]
    links = [f"{UNIT_FOLDERS[0]}/{folder}/{name}" for folder in folders]
    return [link for link in links if host.root.link(link) is not None]


def wanted_at_boot(host: Machinery) -> list[str]:
    """Return the units that a boot of this host starts: enabled for any target, in order of their names."""
    folders = [folder for folder in host.root.names(UNIT_FOLDERS[0]) if folder.endswith(".target.wants")]
    return sorted({name for folder in folders for name in host.root.names(f"{UNIT_FOLDERS[0]}/{folder}")})


def _targets(host: Machinery, name: str) -> list[str]:
    lines = (unit_text(host, name) or "").splitlines()
    return [word for line in lines if line.startswith("WantedBy=") for word in line.partition("=")[2].split()]


def _enable(host: Machinery, name: str) -> Answer:
    if not _known(host, name):
        return fail(f"Failed to enable unit: Unit {name} does not exist")
    said = ""
    for target in _targets(host, name):
        link = f"{UNIT_FOLDERS[0]}/{target}.wants/{name}"
        if host.root.link(link) is None:
            place = host.root.at(link, follow=False)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(f"{UNIT_FOLDERS[0]}/{name}")
            said += f"Created symlink '{link}' \u2192 '{UNIT_FOLDERS[0]}/{name}'.\n"
    return Answer(0, "", said)


def _disable(host: Machinery, name: str) -> Answer:
    links = _wants(host, name)
    for link in links:
        host.root.remove(link)
        folder = host.root.at(link, follow=False).parent
        if not any(folder.iterdir()):
            folder.rmdir()
    return Answer(0, "", "".join(f"Removed '{link}'.\n" for link in links))


def _start(host: Machinery, name: str) -> Answer:
    if not _known(host, name):
        return fail(f"Failed to start {name}: Unit {name} not found.", 5)
    host.root.write(f"{ACTIVE}/{name}", "active\n")
    return Answer()


def _stop(host: Machinery, name: str) -> Answer:
    if not _known(host, name):
        return fail(f"Failed to stop {name}: Unit {name} not loaded.", 5)
    host.root.remove(f"{ACTIVE}/{name}")
    return Answer()


def _show(host: Machinery, name: str) -> Answer:
    state = "active" if is_active(host, name) else "inactive"
    load = "loaded" if _known(host, name) else "not-found"
    return Answer(
        0, f"Id={name}\nLoadState={load}\nActiveState={state}\nSubState={'running' if state == 'active' else 'dead'}\n"
    )


def udevadm(host: Machinery, argv: tuple[str, ...], stdin: bytes) -> Answer:  # noqa: ARG001 - one signature
    verb = argv[1] if len(argv) > 1 else ""
    if verb in ("control", "trigger", "settle"):
        return Answer()
    if verb == "verify":
        return _verify(host, [word for word in argv[2:] if not word.startswith("-")])
    return fail(f"Unknown command verb {verb}.")


def _verify(host: Machinery, paths: list[str]) -> Answer:
    out, err, wrong = "", "", 0
    for path in paths:
        text = host.root.read(path)
        if text is None:
            return fail(f"Failed to parse rules file {path}: No such file or directory")
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.lstrip().startswith("#") and line.count('"') % 2:
                err += f"{path}:{number} Invalid key/value pair, ignoring.\n"
                wrong += 1
        out += f"\n{len(paths)} udev rules files have been checked.\n"
    state = "Fail" if wrong else "Success"
    return Answer(1 if wrong else 0, f"{out}  {state}: {wrong or len(paths)}\n", err)
