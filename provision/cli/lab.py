"""``pvectl lab``: a simulated Proxmox host to try everything on."""

from __future__ import annotations

import os
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Start a simulated Proxmox host and try pvectl on it.")

Machine = Annotated[str, typer.Argument(help="A machine that is shipped, or the path of a machine file.")]
Faults = Annotated[list[str] | None, typer.Option("--fault", help="Begin with this fault; may be given again.")]


@app.command("up")
def up(machine: Machine = "epyc-8x-rtxpro6000", fault: Faults = None) -> None:
    """Start a lab in the background.

    Examples:
      pvectl lab up
      pvectl lab up epyc-8x-rtxpro6000 --fault api-down

    Exit codes: 0 it runs, 1 it did not start, 64 no such machine or fault, or one runs already.
    """
    from provision.cli.output import answer, progress
    from provision.lab import background

    folder = background.state_folder(os.environ)
    progress(f"starting {machine} in {folder}")
    described = background.up(machine, fault or [], folder)
    answer(f"{described['node']} is up: root@127.0.0.1:{described['ssh_port']}")
    answer(f"export PVECTL_INVENTORY={described['inventory']}")
    answer("Next: pvectl doctor")


@app.command("down")
def down() -> None:
    """End the lab that runs in the background.

    Examples:
      pvectl lab down
      PVECTL_LAB_DIR=/tmp/lab pvectl lab down

    Exit codes: 0 it is down, 64 none runs.
    """
    from provision.cli.output import answer
    from provision.lab import background

    background.down(background.state_folder(os.environ))
    answer("the lab is down")


@app.command("status")
def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the lab that runs, and what keeps it from this machine.

    Examples:
      pvectl lab status
      pvectl lab status --json

    Exit codes: 0 it runs, 64 none runs.
    """
    from provision.cli.output import answer, emit_json
    from provision.lab import background

    described = background.ask(background.state_folder(os.environ), {"do": "status"})
    if as_json:
        emit_json("lab", described)
        return
    state = "up" if described["is_up"] else "rebooting"
    answer(f"{described['machine']}: {described['node']} is {state}, {described['reboots']} reboots")
    answer(f"  ssh        root@127.0.0.1:{described['ssh_port']}")
    answer(f"  api        https://127.0.0.1:{described['api_port']}")
    answer(f"  inventory  {described['inventory']}")
    for vmid, port in described["guest_ports"].items():
        runs = int(vmid) in described["running_vms"]
        answer(f"  guest {vmid}  127.0.0.1:{port} ({'running' if runs else 'stopped'})")
    answer(f"  faults     {', '.join(described['faults']) or 'none'}")
    answer("isolation")
    for layer, text in described["isolation"].items():
        answer(f"  {layer:11s}{text}")


@app.command("break")
def break_(
    fault: Annotated[str | None, typer.Argument(help="The fault; without one, all are listed.")] = None,
) -> None:
    """Bring a fault into the lab that runs.

    Examples:
      pvectl lab break
      pvectl lab break api-down

    Exit codes: 0 it is broken, 64 no such fault, or no lab runs.
    """
    from provision.cli.output import answer
    from provision.lab import background, runtime_faults

    if fault is None:
        for name, meaning in sorted(runtime_faults.all_faults().items()):
            answer(f"{name:26s} {meaning}")
        return
    background.ask(background.state_folder(os.environ), {"do": "break", "fault": fault})
    answer(f"the lab has {fault} now")


@app.command("run")
def run(
    machine: Machine,
    command: Annotated[list[str], typer.Argument(help="The command and its words, after --.")],
    fault: Faults = None,
    on_host: Annotated[
        bool, typer.Option("--on-host", help="Let pvectl run as on the host itself: address local, no SSH.")
    ] = False,
) -> None:
    """Run one command on a fresh lab, and take the lab down after it.

    Examples:
      pvectl lab run epyc-8x-rtxpro6000 -- pvectl doctor
      pvectl lab run epyc-8x-rtxpro6000 --on-host -- pvectl plan

    Exit codes: the command's own; 64 no such machine, fault or command.
    """
    from provision.cli.output import progress
    from provision.lab.supervisor import run_command, running

    progress(f"starting {machine}")
    with running(machine, fault or ()) as lab:
        rc = run_command(lab, command, on_host=on_host)
    raise typer.Exit(rc)
