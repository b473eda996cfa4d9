"""``pvectl topo``: the PCI tree of a host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from provision.cli.drawing import Wanted
from provision.cli.output import OutputFormat


def command(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET]",
            help="Inventory name, root@host[:port] or local; none: the inventory's only host.  "
            "With --from: more files to read.",
        ),
    ] = None,
    inventory: Annotated[Path | None, typer.Option("-i", "--inventory", help="Inventory file.")] = None,
    from_: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="FILE...",
            help="Read a capture, or text (lspci, IOMMU groups; several files are put together), instead of a host.",
        ),
    ] = None,
    show_all: Annotated[
        bool, typer.Option("--all", help="Print every function, not only the branches to GPUs, NICs, disks, displays.")
    ] = False,
    output: Annotated[OutputFormat, typer.Option("--output", help="text or json (the whole host model).")] = (
        OutputFormat.text
    ),
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Draw an SVG picture instead; - is stdout.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Draw one HTML page with zoom, search and details instead."),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Draw the host before and after this plan.")
    ] = None,
) -> int:
    """Print the PCI tree of a host: NUMA nodes, ports with ACS, GPUs with their IOMMU groups and owners.

    Examples:
      pvectl topo root@pve1
      pvectl topo --from lspci.txt groups.txt
      pvectl topo pve1 --html pve1.html --plan plan.json

    Exit codes: 0 printed; 1 the host or a file could not be read; 8 the text holds nothing that is known; 64 usage.
    """
    wanted = Wanted(svg, html, plan)
    wanted.check()
    if from_:
        paths = [*from_, *(Path(name) for name in targets or [])]
        return _from_files(paths, wanted, show_all=show_all, output=output)
    return _from_host(targets or [], inventory, wanted, show_all=show_all, output=output)


def _from_host(
    targets: list[str], inventory: Path | None, wanted: Wanted, *, show_all: bool, output: OutputFormat
) -> int:
    from provision.cli.context import load_or_read, resolve
    from provision.cli.drawing import draw
    from provision.cli.output import answer, emit_json
    from provision.errors import UsageError
    from provision.host.assemble import assemble
    from provision.host.topo_text import render

    if len(targets) > 1:
        raise UsageError(
            f"Unable to read {len(targets)} hosts at once: {', '.join(targets)}",
            "name one host, or put --from in front of files; see pvectl topo --help",
        )
    site = resolve(targets[0] if targets else None, inventory)
    model = assemble(load_or_read(site, None))
    if wanted:
        draw(model, wanted, show_all=show_all)
    elif output is OutputFormat.json:
        emit_json("model", model)
    else:
        answer(render(model, show_all=show_all, next_command=f"pvectl doctor {targets[0] if targets else site.name}"))
    return 0


def _from_files(paths: list[Path], wanted: Wanted, *, show_all: bool, output: OutputFormat) -> int:
    from provision.cli.drawing import draw
    from provision.cli.output import answer, emit_json, progress
    from provision.cli.sources import load_source
    from provision.host.text_layout import wrap
    from provision.host.topo_text import render

    source = load_source(paths)
    notes = [line for note in source.notes for line in wrap("", [note], "  ")]
    if wanted or output is OutputFormat.json:
        for note in notes:
            progress(note)
    if wanted:
        draw(source.model, wanted, show_all=show_all)
        return 0
    if output is OutputFormat.json:
        emit_json("model", source.model)
        return 0
    following = f"pvectl doctor --from {paths[0]}" if source.is_capture else "pvectl capture root@HOST"
    text = render(source.model, show_all=show_all, next_command=following)
    answer("\n".join([*notes, "", text]) if notes else text)
    return 0
