"""One way from a capture to a plan, for ``plan``, ``apply`` and ``verify``."""

from __future__ import annotations

import contextlib
import importlib
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from provision.cli.context import Site
from provision.errors import InventoryError, PvectlError
from provision.evidence import known

if TYPE_CHECKING:
    from provision.host.model import HostModel
    from provision.inventory.models import Host, VmWish
    from provision.pci.model import Identity
    from provision.plan.model import Plan
    from provision.remote.session import Session

SHOWCMD_S = 60.0
"""It activates the VM's volumes, which a busy storage may take its time for."""


def plan_for(
    site: Site, model: HostModel, *, accept_lost_text: bool = False, commands: dict[int, str] | None = None
) -> Plan:
    """Return the plan that brings ``model`` to the site's wish.  Raises what make_plan raises.

    ``commands`` is what :func:`present_commands` returned.
    """
    from provision import __version__
    from provision.plan.make import make_plan

    return make_plan(
        site.name,
        model,
        with_keys(site.wish),
        site.policies,
        identities=recorded_identities(model),
        version=__version__,
        accept_lost_text=accept_lost_text,
        commands=commands,
    )


def with_keys(host: Host) -> Host:
    """Return the wish with the public keys of each ``ssh_keys_file`` read.  Raises InventoryError."""
    found = {vmid: _wish_with_keys(vmid, wish) for vmid, wish in host.vms.items()}
    return host.model_copy(update={"vms": found})


def _wish_with_keys(vmid: int, wish: VmWish) -> VmWish:
    cloud = wish.create.cloud_init if wish.create is not None else None
    if wish.create is None or cloud is None or cloud.ssh_keys_file is None:
        return wish
    keys = (*cloud.ssh_keys, *_public_keys(vmid, Path(cloud.ssh_keys_file)))
    new = wish.create.model_copy(update={"cloud_init": cloud.model_copy(update={"ssh_keys": keys})})
    return wish.model_copy(update={"create": new})


def _public_keys(vmid: int, path: Path) -> tuple[str, ...]:
    from provision.inventory.models import PUBLIC_KEY

    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InventoryError(
            f"Unable to read the keys for VM {vmid} from {path}: {error}",
            "name a file with public keys in ssh_keys_file",
        ) from error
    keys = tuple(line for line in lines if line and not line.startswith("#"))
    if not keys or not all(PUBLIC_KEY.fullmatch(key) for key in keys):
        raise InventoryError(
            f"Unable to use {path} for VM {vmid}: it is no file of public keys", "name the .pub file in ssh_keys_file"
        )
    return keys


def plan_now(site: Site, *, accept_lost_text: bool = False) -> Plan:
    """Read the host and plan, over one connection.  An unfinished run is told with what it waits for."""
    from provision.capture.collect import collect_host
    from provision.cli.context import open_session

    with open_session(site) as session:
        ahead = _import_ahead("provision.apply.unfinished", "provision.host.assemble", "provision.plan.make")
        capture = collect_host(session)
        ahead.join()
        from provision.apply.unfinished import find_unfinished
        from provision.host.assemble import assemble

        model = assemble(capture)
        commands = present_commands(site, session, model)
        unfinished = find_unfinished(session, site.name)
    plan = plan_for(site, model, accept_lost_text=accept_lost_text, commands=commands)
    return plan.model_copy(update={"unfinished": unfinished})


def _import_ahead(*modules: str) -> Thread:
    """Import what is needed next while the host answers: the wait is as long as the imports."""

    def work() -> None:
        # An import that fails is raised where it is needed, with its own traceback.
        with contextlib.suppress(ImportError):
            for name in modules:
                importlib.import_module(name)

    thread = Thread(target=work, daemon=True)
    thread.start()
    return thread


def present_commands(site: Site, session: Session, model: HostModel) -> dict[int, str]:
    """Return what ``qm showcmd`` prints for each VM of the inventory that is there, or why it refuses.

    A root shell alone may ask; without one nothing is returned and the plan predicts.
    """
    vms = known(model.proxmox.vms, ())
    here = {vm.vmid for vm in vms if vm.node == known(model.proxmox.node, "")} & set(site.wish.vms)
    found: dict[int, str] = {}
    for vmid in sorted(here) if session.euid == 0 else ():
        result = session.run(["qm", "showcmd", str(vmid)], timeout=SHOWCMD_S)
        if not result.timed_out:
            found[vmid] = (result.stdout if result.rc == 0 else result.stderr).decode("utf-8", "replace")
    return found


def recorded_identities(model: HostModel) -> dict[str, Identity]:
    """Return who the GPUs were when a run last recorded them; empty before the first run."""
    from provision.apply.identity import parse_identities
    from provision.apply.places import IDENTITY

    state = model.files.get(IDENTITY)
    text = state.content if state is not None else None
    return parse_identities(text.encode(), IDENTITY) if isinstance(text, str) else {}


def read_plan(path: Path) -> Plan:
    """Return the plan in a file.  Raises PvectlError where it cannot be read."""
    from provision.apply.runs import parse_plan

    try:
        data = path.read_bytes()
    except OSError as error:
        raise PvectlError(
            f"Unable to read plan {path}: {error.strerror}", "make one with: pvectl plan -o plan.json"
        ) from error
    return parse_plan(data, str(path))
