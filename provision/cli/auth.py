"""``pvectl auth``: what the credentials can do, what is missing for the plan, and how to give it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from provision.cli.context import Site, open_pve, open_session, resolve
from provision.cli.output import OutputFormat, answer, emit_json, progress, style
from provision.errors import PvectlError

if TYPE_CHECKING:
    from provision.plan.model import Plan
    from provision.pve.least_role import Grant
    from provision.pve.privileges import Need, Who
    from provision.pve.session import PveSession
    from provision.remote.session import Session


def command(
    host: Annotated[
        str | None, typer.Argument(help="Inventory name, root@host[:port] or local; none: the inventory's only host.")
    ] = None,
    inventory: Annotated[Path | None, typer.Option("-i", "--inventory", help="Inventory file.")] = None,
    user: Annotated[str, typer.Option(help="User of the token that the commands are for.")] = "gpu@pve",
    name: Annotated[str, typer.Option("--token", help="Name of that token.")] = "pvectl",
    role: Annotated[str, typer.Option(help="Beginning of the roles' names; not PVE...: Proxmox refuses those.")] = (
        "gpu-passthrough"
    ),
    output: Annotated[OutputFormat, typer.Option("--output", help="Form of the answer.")] = OutputFormat.text,
) -> int:
    """Say what the credentials can do, what the plan still needs, and how to make a token with just that.

    Changes nothing: the pveum commands are for you to run as root on a node.

    Examples:
      pvectl auth pve1
      pvectl auth pve1 --user ci@pve --token deploy

    Exit codes: 0 the credentials are enough for the plan, 3 something is missing, 1 error, 64 wrong usage.
    """
    from provision.pve.least_role import role_name

    role_name(role)
    site = resolve(host, inventory)
    progress(f"connecting to {site.name} ...")
    with open_session(site) as session:
        found = look(site, session, open_pve(site, session))
    made = found.commands(user, name, role)
    if output is OutputFormat.json:
        emit_json("auth", found.data(made))
    else:
        answer(found.text(made))
    return 3 if found.missing else 0


_ROOT = {"ticket": "root@pam itself", "root-shell": "a root shell"}


@dataclass(frozen=True)
class Standing:
    """What credentials are, can do, and lack."""

    name: str
    who: Who
    euid: int
    held: dict[str, tuple[str, ...]]
    needs: tuple[Need, ...]
    note: str = ""

    @property
    def missing(self) -> tuple[Need, ...]:
        """Needs that neither these credentials nor the root shell beside them meet."""
        from provision.pve.privileges import missing

        has_shell = self.euid == 0
        lacking = missing(self.needs, self.held, self.who)
        return tuple(need for need in lacking if need.who == "token" or not has_shell)

    @property
    def grants(self) -> tuple[Grant, ...]:
        from provision.pve.least_role import grants

        return grants(self.needs)

    def commands(self, user: str, token: str, role: str) -> tuple[str, ...]:
        from provision.pve.least_role import commands

        return commands(self.grants, user=user, token=token, role=role)

    def data(self, made: Sequence[str]) -> dict[str, Any]:
        return {
            "host": self.name,
            "credentials": self.who,
            "root_shell": self.euid == 0,
            "held": {path: list(names) for path, names in self.held.items()},
            "needs": [need.model_dump(mode="json") for need in self.needs],
            "missing": [need.model_dump(mode="json") for need in self.missing],
            "commands": list(made),
        }

    def text(self, made: Sequence[str]) -> str:
        words = {"token": "an API token", "ticket": "root@pam by ticket", "root-shell": "the host's own root shell"}
        lines = [style(f"Credentials for {self.name}: {words[self.who]}", "bold")]
        lines.append(f"root shell beside it: {'yes' if self.euid == 0 else 'no'}")
        lines += [f"note: {self.note}"] if self.note else []
        lines += ["", style("Needed", "bold")]
        lines += self._needed()
        if self.who == "token":
            lines += ["", style("Privileges of this token", "bold")]
            lines += self._held()
        lines += ["", style("A token with just these privileges (run as root on a node)", "bold")]
        lines += [f"  {line}" for line in made]
        only_root = sorted({need.operation for need in self.needs if need.who != "token"})
        if only_root:
            by = "; the root shell beside it does" if self.euid == 0 and self.who == "token" else ""
            lines += ["", f"No token can do these, whatever its privileges{by}: {', '.join(only_root)}"]
        return "\n".join(lines)

    def _needed(self) -> list[str]:
        """One line for each privilege and path, with every operation that needs it."""
        users: dict[tuple[str, str], list[str]] = {}
        for need in self.needs:
            what = need.privilege if need.who == "token" else _ROOT[need.who]
            users.setdefault((what, need.path), []).append(need.operation)
        lacking = {(need.privilege if need.who == "token" else _ROOT[need.who], need.path) for need in self.missing}
        return [
            f"  {style('missing', 'red') if key in lacking else style('ok', 'green'):<8} {key[0]}"
            + (f" on {key[1]}" if key[1] else "")
            + f": {', '.join(dict.fromkeys(operations))}"
            for key, operations in users.items()
        ]

    def _held(self) -> list[str]:
        """One line for each set of privileges, with the paths that have it."""
        paths: dict[tuple[str, ...], list[str]] = {}
        for path, names in self.held.items():
            paths.setdefault(names, []).append(path)
        return [f"  {', '.join(found)}: {', '.join(names)}" for names, found in paths.items()] or ["  none"]


def look(site: Site, session: Session, pve: PveSession) -> Standing:
    """Return what the credentials are and what this host's plan needs."""
    plan, note = _plan(site, session)
    who: Who = "root-shell" if pve.way == "shell" else "ticket" if pve.is_root else "token"
    return Standing(site.name, who, session.euid, pve.permissions(), _needs(site, plan, pve.node), note)


def _plan(site: Site, session: Session) -> tuple[Plan | None, str]:
    """Return the plan, or why there is none: what the credentials can do is said all the same."""
    from provision.apply.outcome import read_host_now
    from provision.cli.planning import plan_for

    if site.host is None:
        return None, "no inventory, so no plan: these are the needs of looking at mappings and node"
    try:
        return plan_for(site, read_host_now(session), accept_lost_text=True), ""
    except PvectlError as error:
        return None, f"there is no plan ({error.message.splitlines()[0]}): these are the needs of looking"


def _needs(site: Site, plan: Plan | None, node: str) -> tuple[Need, ...]:
    from provision.plan.plan_needs import guest_needs, plan_needs, standing_needs

    vmids = tuple(sorted(site.host.vms)) if site.host is not None else ()
    found = list(standing_needs(node, vmids))
    if plan is not None:
        found += [need for _, needs in plan_needs(plan) for need in needs]
        found += guest_needs(plan)
    return tuple(dict.fromkeys(found))
