"""``pvectl mapping repair``, ``adopt`` and ``split``: a plan of mappings alone, carried out as every plan is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from provision.cli import mapping_text
from provision.cli.changing import Work, open_work, options_for, show
from provision.cli.context import Site, open_pve, open_session, resolve
from provision.cli.mapping_read import all_facts, chosen, facts, node_of
from provision.cli.output import OutputFormat, answer, confirm, emit_json, progress, style
from provision.errors import PveError, UsageError

if TYPE_CHECKING:
    from provision.plan.mapping_plan import Ground
    from provision.plan.model import Plan
    from provision.pve.mapping_cluster import NodeFacts
    from provision.pve.mapping_repair import RepairResult
    from provision.pve.session import MappingRow, PveSession


@dataclass(frozen=True)
class Wish:
    """What the three verbs have in common."""

    host: str | None
    inventory: Path | None
    only: tuple[str, ...]
    yes: bool = False
    dry_run: bool = False
    accept_lost_text: bool = False


def repair(
    wish: Wish,
    also: Sequence[str],
    assign: Sequence[str],
    output: OutputFormat,
    *,
    drop_gone: bool,
    delete_empty: bool,
) -> int:
    """Repair, and return 8 where entries are left that only the user can decide."""
    from provision.plan.mapping_plan import repair_plan
    from provision.pve.mapping_cluster import repair_cluster

    words = _assignments(assign)
    with open_work(resolve(wish.host, wish.inventory), yes=wish.yes) as work:
        ground = _ground(work)
        mappings = chosen(ground.model, [*wish.only, *words] if wish.only else [])
        _refuse_unknown(words, [mapping.id for mapping in mappings])
        nodes = all_facts(ground.model, also, wish.inventory)
        results = [repair_cluster(mapping, nodes, words.get(mapping.id)) for mapping in mappings]
        delete = delete_empty or (drop_gone and not wish.dry_run and _may_delete(results, yes=False))
        plan = repair_plan(
            ground, results, drop_gone=drop_gone, delete_empty=delete, accept_lost_text=wish.accept_lost_text
        )
        if plan.changes:
            _say_verdicts(work, results, nodes, "before")
        code = _carry_out(work, plan, wish, output)
        left = [r for r in results if any(not (drop_gone and e.kind in ("gone", "foreign")) for e in r.refused)]
        _say_left(left)
        is_done = bool(plan.changes) and not wish.dry_run
        refuses = is_done and _say_verdicts(work, results, nodes, "after")
    return code or (8 if left else 7 if refuses else 0)


def _assignments(words: Sequence[str]) -> dict[str, dict[int, str]]:
    """Return ``MAPPING:N=BDF`` as index of the entry to BDF, by mapping."""
    from provision.pci.address import Bdf

    found: dict[str, dict[int, str]] = {}
    for word in words:
        entry, sign, bdf = word.partition("=")
        mapping, colon, number = entry.rpartition(":")
        if not sign or not colon or not number.isdigit() or not mapping:
            raise UsageError(f"Unable to understand --assign {word}", "write MAPPING:N=BDF: rtx6000:3=0000:41:00.0")
        try:
            found.setdefault(mapping, {})[int(number) - 1] = str(Bdf.parse(bdf))
        except ValueError as error:
            raise UsageError(f"Unable to understand --assign {word}: {error}", "write the whole address") from error
    return found


def _refuse_unknown(words: dict[str, dict[int, str]], names: Sequence[str]) -> None:
    unknown = [name for name in words if name not in names]
    if unknown:
        there = ", ".join(names) or "none"
        raise UsageError(f"Unable to assign: there is no mapping {unknown[0]}", f"mappings of this host: {there}")


def _may_delete(results: Sequence[RepairResult], *, yes: bool) -> bool:
    from provision.plan.mapping_plan import left_empty

    empty = left_empty(results)
    return bool(empty) and confirm(f"No entry of {', '.join(empty)} would be left. Delete it?", yes=yes)


def _say_verdicts(work: Work, results: Sequence[RepairResult], nodes: Sequence[NodeFacts], when: str) -> bool:
    """Say what Proxmox thinks of the mappings on each node that was read.  True where it refuses one."""
    names = {result.mapping for result in results}
    refuses = False
    with open_session(work.site) as session:
        pve = open_pve(work.site, session)
        for facts in nodes:
            for row in (row for row in _asked(pve, facts.node) if row.id in names):
                said = [check.message.strip() for check in row.checks] or ["valid"]
                refuses = refuses or any(check.severity == "error" for check in row.checks)
                progress(f"Proxmox {when} the change, mapping {row.id} on {facts.node}: {'; '.join(said)}")
    return refuses


def _asked(pve: PveSession, node: str) -> tuple[MappingRow, ...]:
    """Ask about one node; another one may be down, which is no reason to stop."""
    try:
        return pve.mappings(check_node=True, node=node)
    except PveError as error:
        progress(f"node {node} could not be checked: {error.message}")
        return ()


def _say_left(results: Sequence[RepairResult]) -> None:
    for result in results:
        progress(f"mapping {result.mapping} has entries that only you can decide:")
        for number, entry in enumerate(result.entries, start=1):
            if entry.is_refused:
                progress("\n".join(mapping_text.entry_lines(result.mapping, number, entry, style)))


def adopt(wish: Wish, output: OutputFormat, *, replace: bool) -> int:
    """Record who the devices are."""
    from provision.apply.identity import render_identities
    from provision.cli.planning import recorded_identities
    from provision.plan.mapping_adopt import adopt as look
    from provision.plan.mapping_adopt import adopt_plan

    with open_work(resolve(wish.host, wish.inventory), yes=wish.yes) as work:
        ground = _ground(work)
        mappings = chosen(ground.model, wish.only)
        adoption = look(ground, mappings, recorded_identities(ground.model), replace=replace)
        content = render_identities(adoption.identities, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        plan = adopt_plan(ground, mappings, adoption, content, accept_lost_text=wish.accept_lost_text)
        for note in plan.warnings if plan.is_empty else ():
            progress(note)
        return _carry_out(work, plan, wish, output)


def split(wish: Wish, output: OutputFormat, *, prefix: str | None) -> int:
    """Make one mapping for each GPU of a pool."""
    from provision.plan.mapping_plan import split_plan
    from provision.pve.mapping_split import split as cut

    with open_work(resolve(wish.host, wish.inventory), yes=wish.yes) as work:
        ground = _ground(work)
        (pool,) = chosen(ground.model, wish.only)
        here = facts(ground.model)
        parts = cut(pool, here.node, here.functions, here.identities, here.groups, prefix=prefix)
        plan = split_plan(ground, pool, parts, accept_lost_text=wish.accept_lost_text)
        return _carry_out(work, plan, wish, output)


def _ground(work: Work) -> Ground:
    from provision.apply.outcome import read_host_now
    from provision.plan.mapping_plan import Ground

    site: Site = work.site
    progress(f"reading {site.name} ...")
    model = read_host_now(work.session)
    return Ground(site.name, node_of(model), model, site.policies)


def _carry_out(work: Work, plan: Plan, wish: Wish, output: OutputFormat) -> int:
    from provision.apply.run import apply_plan
    from provision.plan.text import plan_text

    text = plan_text(plan, next_command="", style=style)
    if wish.dry_run and output is OutputFormat.json:
        emit_json("plan", plan)
        return 0
    if output is OutputFormat.json:
        progress(text)
    else:
        answer(text)
    if wish.dry_run or (plan.is_empty and output is OutputFormat.text):
        return 0
    options = options_for(work.site, reboot=False, stop_guests=False)
    return show(apply_plan(plan, work.session, work.pve, ask=work.ask, **work.ways(options)), output)
