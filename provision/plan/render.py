"""Everything that a plan writes is rendered here, from the shipped templates.

A name that a template uses and nobody gave is an error, never an empty text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from provision.resources import resource_path


class Render(Protocol):
    """``render("host/grub-snippet.cfg.j2", {"tokens": ...})`` returns the text."""

    def __call__(self, template: str, values: Mapping[str, Any], /) -> str: ...


def shipped_templates() -> Render:
    """Return a renderer over the templates of this installation."""
    environment = Environment(
        loader=FileSystemLoader(resource_path("templates")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  (configuration files, not HTML)
    )

    def render(template: str, values: Mapping[str, Any], /) -> str:
        return environment.get_template(template).render(values)

    return render


def one_line(render: Render, template: str, values: Mapping[str, Any]) -> str:
    """Render a template that stands for one value of a VM's configuration."""
    return render(template, values).strip("\n")
