"""Write the reference pages from the code, or check that they are up to date (--check).

Generated: reference/cli.md, reference/exit-codes.md, reference/rules.md, reference/symptoms.md, reference/pasted.md,
reference/checks.md, reference/inventory.schema.json.
"""

import contextlib
import importlib
import inspect
import io
import json
import os
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS)]
os.environ.update(COLUMNS="100", NO_COLOR="1", TERM="dumb", LC_ALL="C.UTF-8")
NOTE = "<!-- Written by docs/generate.py; edit the code, then run make docs. -->\n\n"


def help_of(*words: str) -> str:
    from provision.cli.app import run

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        run([*words, "--help"])
    return "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines())


def cli() -> str:
    from provision.cli.verbs import VERBS

    parts = [NOTE, "# Command line\n\n```text\n", help_of(), "\n```\n"]
    for verb in VERBS:
        parts.append(f"\n## pvectl {verb.name}\n\n```text\n{help_of(verb.name)}\n```\n")
        group = getattr(importlib.import_module(verb.module), "app", None)
        for command in group.registered_commands if group else ():
            name = command.name or command.callback.__name__.replace("_", "-")
            parts.append(f"\n### pvectl {verb.name} {name}\n\n```text\n{help_of(verb.name, name)}\n```\n")
    return "".join(parts)


def exit_codes() -> str:
    from provision import errors
    from provision.cli.verbs import EXIT_CODES

    rows = "\n".join(f"| {code} | {text} |" for code, text in EXIT_CODES)
    order = ", ".join(str(code) for code in errors.PRECEDENCE)
    tree = inspect.cleandoc(errors.__doc__ or "").split("\n\n")[1]
    return (
        f"{NOTE}# Exit codes\n\n| code | meaning |\n|---|---|\n{rows}\n\n"
        f"Where several hold, over many hosts too, the first of {order} wins.\n\n"
        f"## The errors behind them\n\n```text\n{inspect.cleandoc(tree)}\n```\n"
    )


def rules() -> str:
    from provision.doctor.document_rules import BUNDLE_RULES, DOCUMENT_RULES
    from provision.doctor.explain import page
    from provision.doctor.rules import RULES

    head = f"{NOTE}# Rules of the doctor\n\nBy symptom: [](symptoms.md).\n"
    names = [rule.id for rule in (*RULES, *DOCUMENT_RULES, *BUNDLE_RULES)]
    return head + "".join(f"\n(rule-{name})=\n{_demote(page(name).strip())}\n" for name in names)


def index_by_symptom() -> str:
    from symptoms import symptoms

    return NOTE + symptoms()


def what_can_be_pasted() -> str:
    from symptoms import pasted

    return NOTE + pasted()


def _demote(page: str) -> str:
    return "\n".join("#" + line if line.startswith("#") else line for line in page.splitlines())


def checks() -> str:
    from provision.verify.checks import CHECKS

    parts = [
        NOTE,
        "# Checks of the proof\n\nEach has three outcomes: pass, fail, undecided. Undecided is never a pass.\n",
    ]
    for name, judge in CHECKS:
        parts.append(f"\n## {name}\n\n{inspect.cleandoc(sys.modules[judge.__module__].__doc__ or '')}\n")
    return "".join(parts)


def schema() -> str:
    from provision.inventory.models import Inventory

    return json.dumps(Inventory.model_json_schema(by_alias=True), indent=2) + "\n"


PAGES = {
    "reference/cli.md": cli,
    "reference/exit-codes.md": exit_codes,
    "reference/rules.md": rules,
    "reference/symptoms.md": index_by_symptom,
    "reference/pasted.md": what_can_be_pasted,
    "reference/checks.md": checks,
    "reference/inventory.schema.json": schema,
}


def main() -> int:
    stale = []
    for name, make in PAGES.items():
        path, text = DOCS / name, make()
        if path.exists() and path.read_text("utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.write_text(text, "utf-8")
    if stale and "--check" in sys.argv:
        print(f"out of date: {', '.join(stale)}; run make docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
