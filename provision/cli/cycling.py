"""``pvectl verify --cycles`` and ``--release``: stop and start VMs to see whether their GPUs come back each time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from provision.cli.changing import Work, open_work
from provision.cli.context import Site, open_session
from provision.cli.output import OutputFormat, answer, emit_json, progress, style
from provision.errors import InventoryError, Refused, UsageError
from provision.evidence import Unknown

if TYPE_CHECKING:
    from provision.host.model import HostModel, Vm
    from provision.remote.session import Target
    from provision.verify.cycles_model import CyclesReport
    from provision.verify.cycles_ways import CycleOptions, VmTask, Ways


@dataclass(frozen=True)
class Asked:
    """What the command line says."""

    count: int
    reset: bool
    vms: tuple[int, ...]
    boot_timeout: float
    yes: bool
    junit: Path | None
    output: OutputFormat


def run(site: Site, asked: Asked) -> int:
    """Ask, cycle, and write what came of it."""
    from provision.verify.cycles import run_cycles
    from provision.verify.cycles_ways import CycleOptions

    options = CycleOptions(count=asked.count, reset=asked.reset, boot_timeout=asked.boot_timeout)
    with open_work(site, yes=asked.yes) as work:
        tasks = _tasks(work, asked.vms)
        if not _agreed(work, tasks, options):
            answer("Nothing was stopped.")
            return 0
        report = run_cycles(tasks, options, _ways(work))
    if asked.junit is not None:
        from provision.verify.cycles_junit import write_junit

        write_junit(report, asked.junit)
    _show(report, asked.output)
    return report.exit_code


def release(site: Site, bdf: str, output: OutputFormat) -> int:
    """Take a GPU out of quarantine; nothing is started by it."""
    from provision.pci.address import Bdf
    from provision.verify.cycles_quarantine import release as take_out

    try:
        address = str(Bdf.parse(bdf))
    except ValueError as error:
        raise UsageError(f"Unable to release {bdf!r}: it is no PCI address", "write it as 0000:41:00.0") from error
    with open_session(site) as session:
        entry = take_out(session, address)
    if output is OutputFormat.json:
        emit_json("quarantine", {"released": entry.model_dump(mode="json")})
    else:
        answer(f"{address} is released. It was in quarantine since {entry.since}: {entry.reason}")
        answer(f"VM {entry.vmid} was left stopped: qm start {entry.vmid}")
    return 0


def _show(report: CyclesReport, output: OutputFormat) -> None:
    from provision.verify.cycles_text import cycles_text

    if output is OutputFormat.json:
        emit_json("cycles", {**report.model_dump(mode="json"), "exit_code": report.exit_code})
    else:
        answer(cycles_text(report, style))


def _agreed(work: Work, tasks: tuple[VmTask, ...], options: CycleOptions) -> bool:
    from provision.verify.cycles_text import notice_text

    ha = [task.vmid for task in tasks if work.pve.vm_is_ha(task.vmid)]
    progress(notice_text(work.site.name, tasks, options.count, reset=options.reset, ha=ha))
    names = ", ".join(str(task.vmid) for task in tasks)
    return work.ask(f"Stop and start VM {names} on {work.site.name} {options.count} times?")


def _ways(work: Work) -> Ways:
    from provision.remote.connect import connect
    from provision.verify.cycles_ways import Ways
    from provision.verify.gather import probe_guest

    return Ways(
        session=work.session,
        pve=work.pve,
        host=work.site.name,
        connect=connect,
        probe=probe_guest,
        report=progress,
        interrupted=work.handler.pressed,
    )


def _tasks(work: Work, wanted: tuple[int, ...]) -> tuple[VmTask, ...]:
    """Return the VMs to cycle.  Raises before anything is stopped where one of them could not be judged."""
    from provision.capture.collect import collect_host
    from provision.cli.guest_way import guest_targets
    from provision.host.assemble import assemble

    site = work.site
    targets = guest_targets(site)
    vmids = wanted or tuple(sorted(site.wish.vms))
    if not vmids:
        raise InventoryError(f"Unable to cycle on {site.name}: its inventory names no VM", "name one below vms")
    for vmid in vmids:
        if vmid not in targets:
            raise InventoryError(
                f"Unable to cycle VM {vmid} on {site.name}: nothing says how to reach its guest, and so nothing would "
                "be proven",
                f"give vms.{vmid}.guest.address in the inventory",
            )
    progress(f"reading {site.name} ...")
    model = assemble(collect_host(work.session))
    _refuse_quarantined(work, model, vmids)
    return tuple(_task(work, model, vmid, targets[vmid]) for vmid in vmids)


def _task(work: Work, model: HostModel, vmid: int, target: Target) -> VmTask:
    from provision.verify.cycles_host import functions_of, gpus_of
    from provision.verify.cycles_ways import VmTask

    vm = _vm(work.site, model, vmid)
    gpus, functions = gpus_of(vm, model, work.session), functions_of(vm, model)
    for found in (gpus, functions):
        if isinstance(found, Unknown):
            raise Refused(f"Unable to cycle VM {vmid}: its devices are not known: {found.unknown}", found.supply)
    if not gpus or isinstance(gpus, Unknown) or isinstance(functions, Unknown):
        raise InventoryError(f"Unable to cycle VM {vmid} on {work.site.name}: it gets no GPU", "see: pvectl plan")
    return VmTask(vmid=vmid, target=target, gpus=gpus, functions=functions)


def _vm(site: Site, model: HostModel, vmid: int) -> Vm:
    vms = model.proxmox.vms
    if isinstance(vms, Unknown):
        raise Refused(f"Unable to cycle VM {vmid} on {site.name}: its VMs are not known: {vms.unknown}", vms.supply)
    found = next((vm for vm in vms if vm.vmid == vmid and vm.node == model.proxmox.node), None)
    if found is None:
        raise InventoryError(f"Unable to cycle VM {vmid} on {site.name}: this node has no such VM", "see: qm list")
    return found


def _refuse_quarantined(work: Work, model: HostModel, vmids: tuple[int, ...]) -> None:
    from provision.verify.cycles_host import functions_of
    from provision.verify.cycles_quarantine import read_quarantine

    for entry in read_quarantine(work.session):
        for vmid in vmids:
            functions = functions_of(_vm(work.site, model, vmid), model)
            if not isinstance(functions, Unknown) and entry.bdf in functions:
                raise Refused(
                    f"Unable to cycle VM {vmid} on {work.site.name}: {entry.bdf} is in quarantine since {entry.since} "
                    f"({entry.reason})",
                    f"once it works again: pvectl verify --release {entry.bdf}",
                )
