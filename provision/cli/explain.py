"""``pvectl explain``: explain a rule or a message, offline."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from provision.cli.output import answer
from provision.errors import UsageError


def command(
    text: Annotated[
        list[str] | None, typer.Argument(help="A rule, or a message of Proxmox, QEMU or the kernel; - reads stdin.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List every rule.")] = False,
) -> int:
    """Explain a rule of the doctor or a pasted message, without any host.

    Examples:
      pvectl explain mapping-stale
      pvectl explain "'iommugroup' does not match for 'rtx6000' (31 != 27)"

    Exit codes: 0 explained, 8 no rule and no known message matches, 64 wrong usage.
    """
    from provision.doctor.explain import explain, rule_list

    if list_:
        answer(rule_list())
        return 0
    words = " ".join(text or ())
    if words == "-" or (not words and not sys.stdin.isatty()):
        words = sys.stdin.read()
    if not words.strip():
        raise UsageError("Unable to explain nothing: no rule and no message was given", "pvectl explain --list")
    answer(explain(words))
    return 0
