"""From arguments to an exit code: look the verb up, run it, turn errors into text."""

from __future__ import annotations

import functools
import importlib
import logging
import os
import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from provision import __version__
from provision.cli.verbs import VERBS, Verb, top_help
from provision.errors import PvectlError, UsageError

if TYPE_CHECKING:
    import typer


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    if "--debug" in arguments[:1]:
        arguments = arguments[1:]
        logging.basicConfig(level=logging.DEBUG, stream=sys.stderr, format="%(name)s: %(message)s")
    else:
        logging.getLogger("paramiko").addHandler(logging.NullHandler())
        logging.getLogger("paramiko").propagate = False
    completing = "_PVECTL_COMPLETE" in os.environ
    if not completing:
        if arguments in ([], ["--help"], ["-h"]):
            sys.stdout.write(top_help())
            return 0 if arguments else 64
        if arguments == ["--version"]:
            sys.stdout.write(f"pvectl {__version__}\n")
            return 0
    try:
        return _dispatch(arguments, completing=completing)
    except PvectlError as error:
        return _report(error, arguments)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    except BrokenPipeError:
        # The reader (head, less) went away: not an error of ours, and nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _report(error: PvectlError, arguments: list[str]) -> int:
    from provision.cli.output import error_text, wants_json, write_error_json

    sys.stdout.flush()
    sys.stderr.write(error_text(error))
    if wants_json(arguments):
        write_error_json(error)
    return error.exit_code


def _dispatch(arguments: list[str], *, completing: bool) -> int:
    import typer

    verbs = VERBS if completing else tuple(v for v in VERBS if arguments[0] == v.name)
    if not verbs:
        raise UsageError(f"there is no verb {arguments[0]!r}", _way_on(arguments))
    app = typer.Typer(name="pvectl", pretty_exceptions_enable=False, rich_markup_mode=None, add_completion=completing)
    app.callback()(_root)
    for verb in verbs:
        _register(app, verb)
    try:
        result = app(arguments, standalone_mode=False, prog_name="pvectl")
    except typer.Abort:
        sys.stderr.write("interrupted\n")
        return 130
    except typer.Exit as leave:
        return int(leave.exit_code)
    except _usage_errors() as wrong:
        raise _usage(wrong, arguments) from wrong
    return int(result) if isinstance(result, int) else 0


def _usage_errors() -> type[Exception]:
    """Typer's own UsageError, which it exports under no name: the parent of BadParameter."""
    import typer

    parent = typer.BadParameter.__mro__[1]
    return parent if issubclass(parent, Exception) else typer.BadParameter


def _root() -> None:
    """NVIDIA GPU passthrough on Proxmox VE."""


def _usage(wrong: BaseException, arguments: list[str]) -> UsageError:
    text = wrong.format_message() if hasattr(wrong, "format_message") else str(wrong)
    return UsageError(text, f"pvectl {arguments[0]} --help shows the options")


def _way_on(arguments: list[str]) -> str:
    """Say what may have been meant; an option in front of its verb is a common slip."""
    verb = next((word for word in arguments if any(word == one.name for one in VERBS)), None)
    if arguments[0].startswith("-") and verb is not None:
        rest = [word for word in arguments if word != verb]
        return f"options stand behind the verb: {shlex.join(['pvectl', verb, *rest])}"
    return f"pvectl --help lists the verbs{_near(arguments[0])}"


def _near(word: str) -> str:
    import difflib

    close = difflib.get_close_matches(word, [verb.name for verb in VERBS], n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _register(app: typer.Typer, verb: Verb) -> None:
    module = importlib.import_module(verb.module)
    group: Any = getattr(module, "app", None)
    if group is not None:
        for command in group.registered_commands:
            text = command.help or (command.callback.__doc__ if command.callback else None) or ""
            command.help = text if "\b" in text else layout(text)
            if command.callback is not None and not hasattr(command.callback, "__wrapped__"):
                command.callback = _interruptible(command.callback)
        app.add_typer(group, name=verb.name, help=verb.summary)
        return
    app.command(verb.name, help=layout(module.command.__doc__ or verb.summary))(_interruptible(module.command))


def _interruptible(command: Callable[..., Any]) -> Callable[..., Any]:
    """Answer Ctrl-C in words: typer makes a bare exit code of it."""

    @functools.wraps(command)
    def run_command(*args: Any, **options: Any) -> Any:
        try:
            return command(*args, **options)
        except KeyboardInterrupt:
            sys.stderr.write("interrupted\n")
            return 130

    return run_command


def layout(docstring: str) -> str:
    """Keep the line breaks of every paragraph but the first (typer would join them)."""
    import inspect

    first, *rest = inspect.cleandoc(docstring).split("\n\n")
    return "\n\n".join([first, *("\b\n" + paragraph for paragraph in rest)])
