"""``pvectl explain``: explain a rule, a code or a message, offline."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from provision.cli.output import OutputFormat, answer, emit_json
from provision.errors import UsageError


def command(
    text: Annotated[
        list[str] | None,
        typer.Argument(help="A rule, a code, or a message of a kernel, driver, QEMU or Proxmox; - reads stdin."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List every rule and message.")] = False,
    output: Annotated[OutputFormat, typer.Option("--output", help="Form of the answer.")] = OutputFormat.text,
) -> int:
    """Explain a rule of the doctor, a code or a pasted message, without any host.

    Examples:
      pvectl explain mapping-stale
      pvectl explain Xid 79
      pvectl explain "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)"

    Exit codes: 0 explained, 8 no rule, no code and no known message matches, 64 wrong usage.
    """
    from provision.doctor.explain import Explanation, explain, explanation, listing, rule_list

    is_json = output is OutputFormat.json
    if list_:
        if is_json:
            emit_json("explanation", Explanation(parts=listing()))
        else:
            answer(rule_list())
        return 0
    words = " ".join(text or ())
    if words == "-" or (not words and not sys.stdin.isatty()):
        words = sys.stdin.read()
    if not words.strip():
        raise UsageError("Unable to explain nothing: no rule, code or message was given", "pvectl explain --list")
    if is_json:
        emit_json("explanation", explanation(words))
    else:
        answer(explain(words))
    return 0
