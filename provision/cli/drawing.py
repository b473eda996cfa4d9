"""``pvectl topo --svg`` and ``--html``: the picture of a host in a file."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from provision.errors import PvectlError, UsageError
from provision.evidence import known

if TYPE_CHECKING:
    from provision.host.model import HostModel
    from provision.plan.model import Plan
    from provision.report.page import Assets

STDOUT = Path("-")


@dataclass(frozen=True)
class Wanted:
    """What the user asked to be drawn."""

    svg: Path | None = None
    html: Path | None = None
    plan: Path | None = None

    def __bool__(self) -> bool:
        return self.svg is not None or self.html is not None

    def check(self) -> None:
        """Raise :class:`UsageError` for a plan without a picture, and for two pictures on stdout."""
        if self.plan is not None and not self:
            raise UsageError(
                f"Unable to draw {self.plan}: no picture was asked for", "give --svg FILE or --html FILE as well"
            )
        if self.svg == self.html == STDOUT:
            raise UsageError("Unable to write two pictures to stdout", "give one of them a file")


def draw(model: HostModel, wanted: Wanted, *, show_all: bool) -> None:
    """Write the pictures.  A file is written at once or not at all.

    Raises :class:`PvectlError` where a file cannot be written or the drawing library is missing, and
    :class:`UsageError` for a plan of another host.
    """
    _require_solver()
    from provision.report.contents import pictures
    from provision.report.page import page
    from provision.report.svg import svg

    shown = pictures(model, _plan(wanted.plan, model), show_all=show_all)
    assets = _assets()
    if wanted.svg is not None:
        _write(wanted.svg, svg(shown, assets.picture_style))
    if wanted.html is not None:
        _write(wanted.html, page(shown, assets))


def _require_solver() -> None:
    from importlib.util import find_spec

    if find_spec("kiwisolver") is None:
        raise PvectlError(
            "Unable to draw a picture: the package kiwisolver is not installed", "pip install 'pvectl[report]'"
        )


def _plan(path: Path | None, model: HostModel) -> Plan | None:
    from provision.cli.planning import read_plan

    if path is None:
        return None
    plan = read_plan(path)
    if plan.basis.machine_id != known(model.machine_id, plan.basis.machine_id):
        raise UsageError(
            f"Unable to draw {path}: it is a plan for {plan.host}, another machine than the one that was read",
            "make the plan again with: pvectl plan -o plan.json",
        )
    return plan


def _assets() -> Assets:
    from provision.report.page import Assets
    from provision.resources import resource_path

    folder = resource_path("templates") / "report"
    names = ("page.html", "page.css", "picture.css", "page.js")
    return Assets(*((folder / name).read_text(encoding="utf-8") for name in names))


def _write(path: Path, text: str) -> None:
    from provision.cli.output import answer, progress

    if path == STDOUT:
        answer(text)
        return
    try:
        handle, name = tempfile.mkstemp(dir=path.resolve().parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError as error:
        raise PvectlError(f"Unable to write {path}: {error.strerror}", "choose another place") from error
    progress(f"picture written to {path}")
