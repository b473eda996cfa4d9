"""One way from a capture to a plan, for ``plan``, ``apply`` and ``verify``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from provision.cli.context import Site
from provision.errors import PvectlError

if TYPE_CHECKING:
    from provision.host.model import HostModel
    from provision.pci.model import Identity
    from provision.plan.model import Plan


def plan_for(site: Site, model: HostModel, *, accept_lost_text: bool = False) -> Plan:
    """Return the plan that brings ``model`` to the site's wish.  Raises what make_plan raises."""
    from provision import __version__
    from provision.plan.make import make_plan

    return make_plan(
        site.name,
        model,
        site.wish,
        site.policies,
        identities=recorded_identities(model),
        version=__version__,
        accept_lost_text=accept_lost_text,
    )


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
